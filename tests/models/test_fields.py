"""The checks of a model's fields, by the model that has all kinds of them."""

import math

import pytest
from helpers import tiny

from transformer.errors import UserError
from transformer.models import stack, transformer

RULES = {**stack.RULES, **transformer.RULES}


@pytest.mark.parametrize("name", [name for name, x in RULES.items() if isinstance(x, tuple)])
def test_a_wrong_choice_names_the_key(name):
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    with pytest.raises(ValueError, match=rf"config\.model\.{name} .*'wrong'"):
        tiny.shapes(tiny.model(**{name: "wrong"}), inputs)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *((name, 0, "must be at least 1") for name in ("d_ff", "num_heads", "num_layers")),
        *((name, -1, "must be at least 0") for name in ("key_size", "value_size", "max_positions")),
        ("norm_epsilon", -1e-6, "must be at least 0"),
        ("norm_epsilon", math.nan, "must be at least 0"),
        ("dropout_rate", 1.0, "must be at least 0 and below 1"),
        ("attention_dropout_rate", -0.1, "must be at least 0 and below 1"),
        ("activation_dropout_rate", 1 - 1e-9, "must be at least 0 and below 1"),  # 1 as float32
        ("activation_dropout_rate", math.nan, "must be at least 0 and below 1"),
    ],
)
def test_a_value_out_of_range_names_the_key(name, value, rule):
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    with pytest.raises(UserError, match=rf"^config\.model\.{name} {rule}, found {value}"):
        tiny.shapes(tiny.model(**{name: value}), inputs)
