"""Our order of a foreign vocabulary, its files, and the models that a program has no form for."""

import dataclasses

import numpy as np
import pytest
from helpers import tiny

from transformer.errors import UserError
from transformer.models import fields, stack
from transformer.tools.convert import ctranslate2_write, foreign, marian, marian_config

PIECES = ["</s>", "<unk>", "a", "b", "<pad>"]


def test_the_special_pieces_come_first_and_the_start_is_a_copy_of_the_padding():
    order = foreign.renumber(PIECES, pad=4, end=0, unknown=1, start=4)
    assert order.old.tolist() == [4, 0, 1, 4, 2, 3]  # the docstring's example
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a", "b"]
    assert order.count == 5
    rows = order.rows(np.arange(5) * 10)
    assert rows.tolist() == [40, 0, 10, 40, 20, 30]


def test_our_own_order_stays():
    ours = ["<pad>", "</s>", "<unk>", "<s>", "x", "y"]
    order = foreign.renumber(ours, pad=0, end=1, unknown=2, start=3)
    assert order.old.tolist() == list(range(6))
    assert order.pieces == ours


def test_no_two_pieces_have_one_name():
    order = foreign.renumber(["<s>", "</s>", "<unk>", "<p>"], pad=3, end=1, unknown=2, start=3)
    assert len(set(order.pieces)) == len(order.pieces) == 5
    order = foreign.renumber(["</s>", "<unk>", "a"], pad=1, end=0, unknown=1, start=0)
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a"]
    assert set(order.silent) == {0, 3}  # the copies


FORM = {"key_size": 0, "value_size": 0, "norm_epsilon": 1e-5}
CHECKS = {"marian": marian_config.check_exportable, "ctranslate2": ctranslate2_write.check}


@pytest.mark.parametrize("program", CHECKS)
def test_a_field_that_a_form_does_not_know_is_refused(program):
    """A fork's field may change the function: that it is left out would be silent."""
    model, check = tiny.model(**FORM), CHECKS[program]
    check(model)

    class Forked(type(model)):
        soft_cap: float = 30.0  # of the scores

    with pytest.raises(UserError, match=r"has no form for config.model.soft_cap=30.0: use [^\n]*$"):
        check(fields.make(Forked, **fields.values(model)))

    @dataclasses.dataclass(frozen=True)
    class MoreOptions(stack.LayerOptions):
        window: int = 128

    options = MoreOptions(**vars(model.options))
    with pytest.raises(UserError, match=r"has no form for config.model.window=128: use [^\n]*$"):
        check(model.clone(options=options))


NAMES = {
    "marian": lambda path: marian.name_of(path, "all"),
    "ctranslate2": ctranslate2_write.place_of,
}


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
    with pytest.raises(
        UserError, match=rf"^\S.* has no form for the parameter {path}: use [^\n]*$"
    ):
        NAMES[program](path)
