"""The arrays of a batch: packed, one pair per row, and their shapes."""

import jax
import numpy as np
import pytest

from transformer.data import batches, packing, pairs, tokenizer
from transformer.data.tokenizer import END, PAD, START
from transformer.data.tokens import Side, Tokens

SOURCES = [[11, 12, END], [13, END], [14, 15, 16, END]]
TARGETS = [[7, 8, END], [9, END], [10, 10, 10, 10, END]]


@pytest.fixture
def tokens(tmp_path):
    side = lambda items: Side(np.concatenate(items), np.cumsum([0, *map(len, items)]))
    return Tokens({"source": side(SOURCES), "target": side(TARGETS)}, tmp_path)


def test_packed_pairs_are_laid_out_as_in_the_docstring(tokens):
    batch = pairs.assemble(tokens, np.array([0, 1, 2]), np.array([0, 0, 2]), (3, 7), ())
    inputs = batch["inputs"]
    assert batch["targets"][0].tolist() == [7, 8, END, 9, END, PAD, PAD]
    assert inputs["target"][0].tolist() == [START, 7, 8, START, 9, PAD, PAD]
    assert inputs["target_positions"][0].tolist() == [0, 1, 2, 0, 1, 0, 0]
    assert inputs["target_segments"][0].tolist() == [1, 1, 1, 2, 2, 0, 0]
    assert batch["weights"][0].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert inputs["source"][0].tolist() == [11, 12, END, 13, END, PAD, PAD]
    assert inputs["source"][2].tolist() == [14, 15, 16, END, PAD, PAD, PAD]
    assert not any(array[1].any() for array in jax.tree.leaves(batch))  # row 1 has no pair


def test_a_pair_per_row_has_the_inputs_of_assemble(tokens):
    """But for padding: its positions go on, and its target is shifted, too."""
    expected = pairs.assemble(tokens, np.arange(3), np.arange(3), (3, 7), ())["inputs"]
    sides = (tokenizer.padded(side, 3, 7) for side in (SOURCES, TARGETS))
    found = pairs.inputs_of_single_pairs(*sides)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        side = name.partition("_")[0]
        real = expected[f"{side}_segments"] > 0
        np.testing.assert_array_equal(np.asarray(array)[real], expected[name][real])
    for side in ("source", "target"):
        np.testing.assert_array_equal(found[f"{side}_segments"], expected[f"{side}_segments"])


def test_fill_fractions_count_the_tokens_of_each_side(tokens):
    rows = packing.Rows(8, np.array([0, 1, 2]), np.array([0, 2, 3]))
    epoch = batches.Batches([rows], batch_positions=8, seed=0, assemble=None)
    assert pairs.fill_fractions(epoch, tokens) == (9 / 16, 10 / 16)
