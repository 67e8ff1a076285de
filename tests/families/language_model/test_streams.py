"""Windows of a stream: each token is a target once in order; shifts come from (seed, t, item)."""

import functools

import numpy as np
import pytest

from transformer.data import batches
from transformer.data.tokenizer import END, PAD
from transformer.families.language_model import streams

IDS = np.arange(4, 4 + 23).astype(np.uint16)


def batched(assemble, ids=IDS, seed=3, length=5):
    rows = streams.windows(len(ids), length)
    return batches.Batches([rows], 2 * length, seed, functools.partial(assemble, ids))


def test_the_example_in_the_docstring():
    batch = streams.assemble(np.array([7, 8, END, 9, END]), np.array([1]), np.array([0]), (1, 3))
    assert batch["targets"].tolist() == [[9, END, PAD]]
    assert batch["inputs"]["tokens"].tolist() == [[END, 9, PAD]]
    assert batch["inputs"]["positions"].tolist() == [[0, 1, 0]]
    assert batch["inputs"]["segments"].tolist() == batch["weights"].tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("length", [1, 5, 23, 40])
@pytest.mark.parametrize("count", [1, 5, 22, 23])
def test_in_order_each_token_is_a_target_once_behind_the_one_before_it(count, length):
    ids = IDS[:count]
    epoch = batched(streams.assemble, ids, None, length)
    targets, before = [], []
    for t in range(len(epoch)):
        batch = epoch[t]
        real = batch["weights"] > 0
        targets += batch["targets"][real].tolist()
        before += batch["inputs"]["tokens"][real].tolist()
    assert targets == ids.tolist()
    assert before == [END, *ids[:-1].tolist()]


def test_shifted_windows_are_full_and_begin_anywhere_in_their_part():
    epoch, begun = batched(streams.assemble_shifted), {}
    for t in range(200 * len(epoch)):
        batch = epoch[t]
        for targets, tokens, weights in zip(
            batch["targets"], batch["inputs"]["tokens"], batch["weights"], strict=True
        ):
            if not weights.any():
                continue  # a row without an item
            start = int(targets[0]) - 4
            assert targets.tolist() == IDS[start : start + 5].tolist()
            assert tokens.tolist() == [END if start == 0 else IDS[start - 1], *targets[:-1]]
            begun[start] = begun.get(start, 0) + 1
    assert begun.keys() == set(range(19))  # the last full window begins at 18
    assert max(begun[start] for start in range(15)) < 2 * min(begun[start] for start in range(15))


def test_a_stream_that_is_shorter_than_a_row_is_padded():
    batch = batched(streams.assemble_shifted, IDS[:3])[0]
    assert batch["targets"][0].tolist() == [4, 5, 6, PAD, PAD]
    assert batch["weights"].sum() == 3
