"""The parts of the boxes: what a key may say, and which layer has which."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.cases import registered

from transformer import registry
from transformer.errors import UserError
from transformer.models import boxes
from transformer.tasks import attention_weights

INPUTS = tiny.unpacked(tiny.pairs())["inputs"]


class Window(nn.Module):
    """A mixer by its fields alone."""

    options: object
    causal: bool
    dtype: object
    size: int
    share: float

    both_ways = False
    takes_packed_rows = False


@pytest.fixture(autouse=True)
def _window(monkeypatch):
    monkeypatch.setitem(registry.PARTS["mixer"], "window", f"{__name__}:Window")


def made(pattern, num_layers):
    given = {"options": tiny.model().options, "causal": True, "dtype": jnp.float32}
    return [mixer(parent=None) for mixer in boxes.parts("mixer", pattern, num_layers, **given)]


def test_layers_repeat_the_pattern():
    layers = made("window(size=3, share=0.5),attention,attention", 5)
    kinds = [type(layer).__name__ for layer in layers]
    assert kinds == ["Window", "SelfAttention", "SelfAttention", "Window", "SelfAttention"]
    assert (layers[3].size, layers[3].share, layers[3].causal) == (3, 0.5, True)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "must be a name with its fields"),
        ("window(3, 0.5)", "must be a name with its fields"),
        ("window(size={[]: 1}, share=0.5)", "must be a name with its fields"),
        ("atention", "must be one of 'attention', .* found 'atention'; did you mean attention?"),
        ("window", r"is written window\(size=INT, share=FLOAT\), found window\(\)"),
        ("window(size=3)", r"is written window\(size=INT, share=FLOAT\), found window\(size=3\)"),
        ("window(size=3.0, share=0.5)", r"found window\(size=3.0, share=0.5\)"),
        ("attention(heads=3)", r"is written attention, found attention\(heads=3\)"),
    ],
)
def test_a_wrong_pattern_is_one_line(pattern, message):
    with pytest.raises(UserError, match=rf"^config\.model\.mixer.*{message}"):
        made(pattern, 2)


def test_parts_are_written_out_in_one_form():
    form = lambda **x: boxes.written_out(tiny.ARGUMENTS | x)
    for text in ("window(share=1, size=3)", "window(size=3, share=1.0)"):
        assert form(mixer=text)["mixer"] == "window(size=3, share=1.0)"
    with pytest.raises(UserError, match=r"^config\.model\.decoder_mixer must be one of"):
        form(decoder_mixer="atention")


def test_an_encoder_refuses_a_mixer_that_reads_one_way():
    with pytest.raises(UserError, match=r"window reads earlier positions only.*decoder_mixer"):
        tiny.shapes(tiny.model(mixer="attention,window(size=3, share=0.5)"), INPUTS)


def test_a_model_takes_packed_rows_if_all_its_mixers_do():
    window = "attention,window(size=3, share=0.5)"
    assert tiny.model().takes_packed_rows
    assert not tiny.model(mixer=window).takes_packed_rows
    assert not tiny.model(decoder_mixer=window).takes_packed_rows


@pytest.mark.parametrize("mixer", registered("mixer", "average"))
def test_the_decoder_may_have_a_mixer_of_its_own(mixer):
    model = tiny.model(decoder_mixer=f"{mixer},attention", num_layers=1, num_decoder_layers=2)
    shapes = tiny.shapes(model, INPUTS)
    names = lambda half, i: set(shapes[half][f"layers_{i}"]["self_attention"])
    assert names("decoder", 0) == {"inner"}
    assert names("encoder", 0) == names("decoder", 1) == {"query", "key", "value", "output"}
    assert model.flops(1, 8) != tiny.model(num_layers=1, num_decoder_layers=2).flops(1, 8)


@pytest.mark.parametrize("mixer", registered("mixer", "average"))
def test_layers_without_attention_have_weights_of_zero(mixer):
    """So that the number of a picture's layer is that of the model's."""
    model = tiny.model(mixer=f"{mixer},attention")
    params = tiny.parameters(model, INPUTS)
    weights = attention_weights.batch_weights(params, INPUTS, model=model)
    assert {name: len(x) for name, x in weights.items()} == {"encoder": 2, "decoder": 2, "cross": 2}
    assert not np.any(weights["decoder"][0])
    assert np.any(weights["decoder"][1])
    model = tiny.model(mixer=mixer)
    params = tiny.parameters(model, INPUTS)
    assert set(attention_weights.batch_weights(params, INPUTS, model=model)) == {"cross"}
