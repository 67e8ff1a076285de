"""Which models Hugging Face's Marian has a form for; a config.json there and back."""

import pathlib

import pytest
from helpers import tiny

from transformer.errors import UserError
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


@pytest.mark.parametrize(
    ("value", "options", "found"),
    [
        (3, {"kind": int, "least": 3, "most": 3}, 3),
        (3, {"kind": float}, 3.0),
        (None, {"kind": str, "default": "x"}, "x"),
        ("y", {"kind": str, "default": "x"}, "y"),
    ],
)
def test_a_field_is_read_or_has_its_default(value, options, found):
    value = marian_config.field({"size": value}, "a.json", "size", **options)
    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize(
    ("value", "options", "said"),
    [
        (None, {"kind": str}, "is missing, or no str: found 'None'"),
        (True, {"kind": int}, "is missing, or no int: found 'True'"),
        ({}, {"kind": str, "default": "x"}, "is missing, or no str: found '{}'"),
        (10**400, {"kind": float}, "is missing, or no float"),
        (2, {"kind": int, "least": 3}, "is from 3 to inf, found 2"),
        (2**40, {"kind": int, "most": 2**16}, "is from -inf to 65536, found 1099511627776"),
        (float("nan"), {"kind": float, "most": 1}, "is from -inf to 1, found nan"),
    ],
)
def test_a_field_of_another_kind_or_size_is_named(value, options, said):
    with pytest.raises(UserError, match=f"a.json: size {said}"):
        marian_config.field({"size": value}, "a.json", "size", **options)
