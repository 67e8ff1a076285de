"""The arrays of a batch of texts; how many tokens are masked, by what, and from which draw."""

import types

import numpy as np
import pytest

from transformer.data import packing
from transformer.data.tokenizer import END, PAD, START
from transformer.data.tokens import Side
from transformer.families.texts import texts

VOCABULARY = 1000


def side_of(items):
    return Side(np.concatenate(items), np.cumsum([0, *map(len, items)]))


def long_side(count=40, seed=0):
    """Texts of 1 to 60 ids, END included."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 61, count)
    return side_of([[*random.integers(4, VOCABULARY, n - 1), END] for n in lengths])


def test_texts_are_laid_out_as_in_the_docstring():
    side = side_of([[7, 8, END], [9, END], [10, END]])
    batch = texts.inputs(side, np.array([0, 1, 2]), np.array([0, 0, 2]), (3, 6))
    assert batch["ids"][0].tolist() == [START, 7, 8, START, 9, PAD]
    assert batch["positions"][0].tolist() == [0, 1, 2, 0, 1, 0]
    assert batch["segments"][0].tolist() == [1, 1, 1, 2, 2, 0]
    assert batch["ids"][2].tolist() == [START, 10, *[PAD] * 4]
    assert not any(array[1].any() for array in batch.values())


def test_a_full_row_above_is_no_neighbour():
    """START is at position 0, not where the roll ends."""
    side = side_of([[7, 8, END], [9, END]])
    batch = texts.inputs(side, np.array([0, 1]), np.array([0, 1]), (2, 3))
    assert batch["ids"].tolist() == [[START, 7, 8], [START, 9, PAD]]


@pytest.mark.parametrize("count", [1, 2, 3, 9, 40])
def test_a_line_has_the_row_that_it_has_in_training(count):
    vocabulary = types.SimpleNamespace(encode=lambda lines: [[*range(4, 3 + count), END]])
    side = texts.shorten(side_of(vocabulary.encode(["a line"])), 16)
    [rows] = packing.one_per_row((side.lengths,), np.arange(1), 16)
    expected = texts.inputs(side, np.arange(1), np.arange(1), (1, rows.length))
    line = texts.encode_row(["a line"], vocabulary, 16)
    assert {name: x.tolist() for name, x in line.items()} == {
        name: x[0].tolist() for name, x in expected.items()
    }


def test_two_texts_of_a_row_are_cut_and_laid_out_as_in_training():
    """The row of the docstring; the first text is cut to half of 6."""
    items = [[4, END], [5, END], [7, 8, 9, 10, END], [9, END]]
    side = texts.shorten(side_of(items), 3)
    batch = texts.labelled(side, np.array([1, 2]), np.array([1]), np.array([0]), (2, 6))
    assert (batch["targets"].tolist(), batch["weights"].tolist()) == ([2, 0], [1, 0])
    row = texts.encode_row(["a", "b"], types.SimpleNamespace(encode=lambda _: items[2:]), 6)
    expected = {"ids": [START, 7, 8, START, 9, PAD], "positions": [0, 1, 2, 0, 1, 0]}
    for name, values in {**expected, "segments": [1, 1, 1, 2, 2, 0]}.items():
        assert row[name].tolist() == batch["inputs"][name][0].tolist() == values


def test_shortened_texts_keep_their_beginning():
    side = texts.shorten(side_of([[7, 8, 9, END], [9, END], [5, 6, END]]), 3)
    assert side.lengths.tolist() == [3, 2, 3]
    assert side.ids.tolist() == [7, 8, 9, 9, END, 5, 6, END]


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_a_labelled_batch_has_the_target_of_each_row(dtype):
    side, targets = side_of([[7, END], [8, 8, END], [9, END]]), np.array([2, 0, 1], dtype)
    batch = texts.labelled(side, targets, np.array([2, 0]), np.array([0, 1]), (4, 4))
    assert batch["targets"].tolist() == [1, 2, 0, 0]
    assert batch["weights"].tolist() == [1, 1, 0, 0]
    assert batch["inputs"]["ids"][:, 1].tolist() == [9, 7, 0, 0]
    assert batch["targets"].dtype == dtype


def masked(side, key=(5, 6), share=0.15):
    items = np.arange(len(side.lengths))
    options = {"share": share, "vocab_size": VOCABULARY}
    return texts.masked(side, items, items, (len(items), 64), key, **options)


def test_shares_are_those_of_bert():
    """15 % of the tokens; of these 80 % become MASK, 10 % another token, 10 % stay."""
    side, counts = long_side(600), np.zeros(3)
    plain = texts.inputs(side, *[np.arange(600)] * 2, (600, 64))
    tokens = 0
    for t in range(5):
        batch = masked(side, key=(0, t))
        rows, slots = np.nonzero(batch["weights"])
        columns = batch["inputs"]["masked"][rows, slots]
        now, before = batch["inputs"]["ids"][rows, columns], plain["ids"][rows, columns]
        np.testing.assert_array_equal(batch["targets"][rows, slots], before)
        counts += [(now == texts.MASK).sum(), (now == before).sum(), 0]
        counts[2] += len(now) - (now == texts.MASK).sum() - (now == before).sum()
        tokens += ((plain["segments"] > 0) & (plain["positions"] > 0)).sum()
        unchanged = np.ones((600, 64), bool)
        unchanged[rows, columns] = False
        np.testing.assert_array_equal(
            batch["inputs"]["ids"][unchanged], plain["ids"][unchanged]
        )  # START and padding included
    assert counts.sum() / tokens == pytest.approx(0.15, abs=0.002)
    np.testing.assert_allclose(counts / counts.sum(), [0.8, 0.1, 0.1], atol=0.01)


def test_a_token_is_masked_once_and_never_start():
    batch = masked(long_side(), share=0.9)
    for columns, weights, positions in zip(
        batch["inputs"]["masked"], batch["weights"], batch["inputs"]["positions"], strict=True
    ):
        chosen = columns[weights > 0]
        assert len(set(chosen)) == len(chosen)
        assert (positions[chosen] > 0).all()


@pytest.mark.parametrize("share", [0.01, 0.15, 0.5, 0.99])
def test_a_row_never_has_more_than_fit(share):
    """Full rows, whatever the draw."""
    batch = masked(side_of([[*range(4, 67), END]] * 50), share=share)
    assert batch["weights"].shape == (50, int(share * 64) + 1)
    assert set(batch["weights"].sum(axis=1)) <= {int(share * 63), int(share * 63) + 1}


def test_another_seed_or_step_masks_other_tokens():
    side = long_side()
    columns = [masked(side, key=key)["inputs"]["masked"] for key in ((5, 6), (5, 7), (6, 6))]
    assert len({x.tobytes() for x in columns}) == 3
