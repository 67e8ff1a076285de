"""Which models Hugging Face's Marian has a form for; a config.json there and back."""

import pathlib

import pytest
from helpers import tiny

from transformer.models import fields
from transformer.tools.convert import marian_config

# What Marian's form has.
OURS = {"key_size": 0, "value_size": 0, "norm_epsilon": 1e-5, "positions": "halves"}


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_a_config_s_fields_are_those_it_was_made_of(tied, activation):
    changes = {"tied_embeddings": tied, "activation": activation, "num_decoder_layers": 1}
    model = tiny.model(**OURS, **changes, **{"attention_bias": True, "output_bias": True})
    orders = [*range(tiny.VOCABULARY)], [*range(tiny.VOCABULARY)]
    config = marian_config.config_of(model, orders, max_positions=64)
    read = marian_config.fields_of(config, pathlib.Path("config.json"))
    assert read.items() <= fields.values(model).items()


def test_another_epsilon_is_said(caplog):
    marian_config.check(tiny.model(**OURS))
    assert not caplog.messages
    marian_config.check(tiny.model(**{**OURS, "norm_epsilon": 1e-6}))
    assert caplog.messages == ["export: LayerNorm's epsilon is 1e-05 there, 1e-06 here"]
