"""A model by its name and fields: what is built, and what is refused with which line."""

import math
import sys

import flax.linen as nn
import pytest
from helpers import tiny

from transformer import registry
from transformer.errors import UserError
from transformer.models import fields, layer_options, transformer

RULES = {**layer_options.RULES, **transformer.RULES}
SIZES = ("source_vocab_size", "target_vocab_size")
SIZE = {name: tiny.ARGUMENTS[name] for name in SIZES}
FIELDS = {name: value for name, value in tiny.ARGUMENTS.items() if name not in SIZES}


class Counter(nn.Module):
    """Another architecture."""

    step_size: int
    source_vocab_size: int
    target_vocab_size: int


def test_a_model_is_built_by_its_name():
    assert fields.build("transformer", FIELDS, **SIZE) == tiny.model()


def test_an_entry_of_the_table_is_enough(monkeypatch):
    monkeypatch.setitem(sys.modules, "counter", sys.modules[__name__])
    monkeypatch.setitem(registry.MODELS, "counter", "counter:Counter")
    model = fields.build("counter", {"step_size": 3}, **SIZE)
    assert isinstance(model, Counter)
    assert (model.step_size, model.target_vocab_size) == (3, tiny.VOCABULARY)
    with pytest.raises(UserError, match=r"config\.model\.d_model is not a field of Counter"):
        fields.build("counter", {"step_size": 3, "d_model": 8}, **SIZE)
    line = "'counter' is a model of another task: Counter has no num_classes, vocab_size"
    with pytest.raises(UserError, match=rf"^config\.architecture={line}$"):
        fields.build("counter", {"step_size": 3}, vocab_size=9, num_classes=2)


@pytest.mark.parametrize(
    "name", ["no_model", "transformer.models.transformer:Transformer", "os:system"]
)
def test_only_names_of_the_table_are_imported(name):
    with pytest.raises(UserError, match=r"^config\.architecture must be one of .*, found '"):
        fields.build(name, FIELDS, **SIZE)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {**FIELDS, "d_modle": 8},
            "d_modle is not a field of Transformer: the fields are activation, ",
        ),
        ({k: v for k, v in FIELDS.items() if k != "d_ff"}, "d_ff is missing: the fields are "),
        ({**FIELDS, "name": "x"}, "name is not a field of Transformer"),
    ],
)
def test_fields_are_exactly_the_models(values, line):
    with pytest.raises(UserError, match=rf"^config\.model\.{line}"):
        fields.build("transformer", values, **SIZE)


@pytest.mark.parametrize("name", [name for name, x in RULES.items() if isinstance(x, tuple)])
def test_a_wrong_choice_names_the_key(name):
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    with pytest.raises(ValueError, match=rf"config\.model\.{name} .*'wrong'"):
        tiny.shapes(tiny.model(**{name: "wrong"}), inputs)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *((name, 0, "must be at least 1") for name in ("num_heads", "num_layers")),
        ("d_ff", -1, "must be at least 0"),
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
