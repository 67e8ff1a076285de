"""Which models and params another program has a form for; what a fork has added is refused."""

import dataclasses
import pathlib

import flax.traverse_util
import pytest
from helpers import tiny

from transformer.errors import UserError
from transformer.models import fields, layer_options
from transformer.tools.convert import ctranslate2_write, marian, marian_config
from transformer.workdir import config_files

FORM = {"key_size": 0, "value_size": 0, "norm": "layer(epsilon=1e-05)"}
CHECKS = {"marian": marian_config.check, "ctranslate2": ctranslate2_write.check}


@pytest.mark.parametrize(
    ("programs", "key", "value"),
    [
        ("marian", "residual", "pre"),
        ("marian", "final_norm", True),
        ("marian", "positions", "concatenated"),
        ("marian ctranslate2", "norm", "rms"),
        ("marian ctranslate2", "residual", "none"),
        ("marian ctranslate2", "score", "cosine"),
        ("marian ctranslate2", "score", "dot"),
        ("marian ctranslate2", "positions", "rotary"),
        ("marian ctranslate2", "key_size", 4),
        ("marian ctranslate2", "value_size", 3),
    ],
)
def test_a_model_without_a_form_is_refused(programs, key, value):
    for program in programs.split():
        with pytest.raises(UserError, match=rf"config.model.*{key}"):
            CHECKS[program](tiny.model(**{**FORM, key: value}))


@pytest.mark.parametrize("program", CHECKS)
def test_a_field_that_a_form_does_not_know_is_refused(program, monkeypatch):
    """A fork's field may change the function: that it is left out would be silent."""
    model, check = tiny.model(**FORM), CHECKS[program]
    check(model)

    class Forked(type(model)):
        soft_cap: float = 30.0  # of the scores

    with pytest.raises(UserError, match=r"represent config.model.soft_cap=30.0: use [^\n]*$"):
        check(fields.make(Forked, **fields.values(model)))

    @dataclasses.dataclass(frozen=True)
    class MoreOptions(layer_options.LayerOptions):
        window: int = 128

    options = MoreOptions(**vars(model.options))
    with pytest.raises(UserError, match=r"cannot represent config.model.window=128: use [^\n]*$"):
        check(model.clone(options=options))
    # By a default of its key that is off it changes nothing, by another it may.
    defaults = config_files.default_config().copy_and_resolve_references()
    monkeypatch.setattr(config_files, "default_config", lambda task: defaults)
    defaults.model.window = 0
    check(model.clone(options=dataclasses.replace(options, window=0)))
    with pytest.raises(UserError, match=r"window=128, only 0: use [^\n]*=safetensors$"):
        check(model.clone(options=options))
    defaults.model.window = 128
    with pytest.raises(UserError, match=r"window=128: use [^\n]*=safetensors$"):
        check(model.clone(options=options))


NAMES = {
    "marian": lambda path: marian.name_of(path, "none"),
    "ctranslate2": ctranslate2_write.place_of,
}


def test_every_parameter_has_a_name_of_its_own():
    model = tiny.model(**FORM, output_bias=True, attention_bias=True, tied_embeddings="none")
    shapes = tiny.shapes(model, tiny.unpacked(tiny.pairs())["inputs"])
    paths = flax.traverse_util.flatten_dict(shapes, sep="/")
    names, places = ({path: name(path) for path in paths} for name in NAMES.values())
    assert len({*names.values()}) == len({*places.values()}) == len(paths)
    key = "encoder/layers_0/self_attention/key/kernel"
    assert names[key] == "model.encoder.layers.0.self_attn.k_proj.weight"
    assert places[key] == ("encoder/layer_0/self_attention/linear_0/weight", 1)
    # The parts of an array are numbered from 0 on.
    assert {(name, part - 1) for name, part in places.values() if part} <= {*places.values()}


@pytest.mark.parametrize("program", NAMES)
@pytest.mark.parametrize(
    "path",
    [
        "decoder/layers_0/self_attention/distance_bias",
        "decoder/layers_0/self_attention/query/scale",
        "encoder/layers_0/feed_forward/gate/kernel",
        "more_positions/embedding",
        "adapter/kernel",
    ],
)
def test_a_parameter_that_a_form_does_not_know_is_refused(program, path):
    """A fork's layer may have one, without a field: that it is left out would be silent."""
    with pytest.raises(UserError, match=rf"^\S.* represent the parameter {path}: use [^\n]*$"):
        NAMES[program](path)


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_a_config_s_fields_are_those_it_was_made_of(tied, activation):
    changes = {"tied_embeddings": tied, "feed_forward": activation, "num_decoder_layers": 1}
    model = tiny.model(
        **FORM, positions="halves", **changes, **{"attention_bias": True, "output_bias": True}
    )
    orders = [*range(tiny.VOCABULARY)], [*range(tiny.VOCABULARY)]
    config = marian_config.config_of(model, orders, max_positions=64)
    read = marian_config.fields_of(config, pathlib.Path("config.json"))
    assert read.items() <= fields.values(model).items()


def test_another_epsilon_is_said(caplog):
    marian_config.check(tiny.model(**FORM))
    assert not caplog.messages
    marian_config.check(tiny.model(**{**FORM, "norm": "layer"}))
    assert caplog.messages == ["export: LayerNorm's epsilon is 1e-05 there, 1e-06 here"]
