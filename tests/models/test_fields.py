"""A model by its name and fields: what is built, and what is refused with which line."""

import sys

import flax.linen as nn
import pytest
from helpers import tiny

from transformer import registry
from transformer.errors import UserError
from transformer.models import fields

SIZES = ("source_vocab_size", "target_vocab_size")
SIZE = {name: tiny.ARGUMENTS[name] for name in SIZES}
FIELDS = {name: value for name, value in tiny.ARGUMENTS.items() if name not in SIZES}


class Counter(nn.Module):
    """Another architecture."""

    step_size: int
    source_vocab_size: int
    target_vocab_size: int


def test_an_entry_of_the_table_is_enough(monkeypatch):
    monkeypatch.setitem(sys.modules, "counter", sys.modules[__name__])
    monkeypatch.setitem(registry.MODELS, "counter", "counter:Counter")
    assert fields.build("transformer", FIELDS, **SIZE) == tiny.model()
    assert fields.build("counter", {"step_size": 3}, **SIZE) == Counter(step_size=3, **SIZE)
    with pytest.raises(UserError, match=r"config\.model\.d_model is not a field of Counter"):
        fields.build("counter", {"step_size": 3, "d_model": 8}, **SIZE)
    line = "'counter' is a model of another task: Counter has no num_classes, vocab_size"
    with pytest.raises(UserError, match=rf"^config\.architecture={line}$"):
        fields.build("counter", {"step_size": 3}, vocab_size=9, num_classes=2)


def test_only_names_of_the_table_are_imported():
    for name in ("no_model", "transformer.models.transformer:Transformer", "os:system"):
        with pytest.raises(UserError, match=r"^config\.architecture must be one of .*, found '"):
            fields.build(name, FIELDS, **SIZE)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {**FIELDS, "d_modle": 8},
            "d_modle is not a field of Transformer: the fields are activation_dropout_rate, ",
        ),
        ({k: v for k, v in FIELDS.items() if k != "d_ff"}, "d_ff is missing: the fields are "),
        ({**FIELDS, "name": "x"}, "name is not a field of Transformer"),
    ],
)
def test_fields_are_exactly_the_models(values, line):
    with pytest.raises(UserError, match=rf"^config\.model\.{line}"):
        fields.build("transformer", values, **SIZE)
