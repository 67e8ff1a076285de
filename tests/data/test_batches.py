"""Batch t is a pure function of (corpus, seed, t); an epoch holds each training pair once."""

import functools
import logging
import math
import random
import threading

import jax
import numpy as np
import pytest
from helpers.batching import assert_hosts_share, epoch, pairs_of, sentences_of, training_batches
from helpers.corpora import LENGTH, Source

from transformer.data import batches, packing
from transformer.data import pairs as pair_arrays
from transformer.distributed import layout, parallel_step


def evaluation_batches(tokens, batch_tokens=5 * LENGTH):
    """Evaluation batches, as in transformer/tasks/translation.py."""
    pairs = np.arange(len(tokens.sides["source"].lengths))
    groups = packing.one_per_row(tokens.lengths, pairs, LENGTH)
    assemble = functools.partial(pair_arrays.assemble, tokens)
    return batches.Batches(groups, batch_tokens, None, assemble)


PACKED = pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])


@PACKED
@pytest.mark.parametrize("seed", range(5))
def test_every_pair_once_an_epoch(tokenised, vocabulary, packed, seed):
    """Of random corpora, row lengths and batch sizes."""
    chosen = random.Random(seed)
    source = Source(seed, count=chosen.randint(1, 200), longest=chosen.randint(1, 9))
    batched = training_batches(
        tokenised(source), packed, seed, chosen.choice([1, LENGTH, 7 * LENGTH, 500 * LENGTH])
    )
    expected = [pair for pair in pairs_of(source, vocabulary) if max(map(len, pair)) <= LENGTH]
    assert expected
    for number in (0, 1, 4):
        assert sorted(epoch(batched, number)) == sorted(expected)


@PACKED
def test_epochs_and_seeds_differ_in_order(tokenised, packed):
    tokens = tokenised(Source(0))
    one, same, other = (training_batches(tokens, packed, seed) for seed in (1, 1, 2))
    n = len(one)
    assert epoch(one, 0) == epoch(same, 0)
    assert epoch(one, 3) == epoch(same, 3)
    orders = [epoch(one, 0), epoch(one, 1), epoch(one, 2), epoch(other, 0), epoch(other, 1)]
    for i, order in enumerate(orders):
        assert order not in orders[:i]
    # Batches have other rows, not only another order.
    dealt = [
        {frozenset(sentences_of(one[t])) for t in part} for part in (range(n), range(n, 2 * n))
    ]
    assert len(dealt[0] & dealt[1]) <= n // 2


@PACKED
def test_a_batch_has_as_many_rows_as_its_tokens_allow(tokenised, packed):
    batched = training_batches(tokenised(Source(0)), packed, 0, batch_tokens=5 * LENGTH + 3)
    shapes = {batched[t]["targets"].shape for t in range(len(batched))}
    lengths = {group.length for group in batched.groups}
    assert shapes == {((5 * LENGTH + 3) // length, length) for length in lengths}
    for t in range(len(batched)):
        assert batched[t]["targets"].shape == batched.shape(t)


def test_a_small_group_has_a_small_batch_in_evaluation(tokenised):
    """Of 2^n rows, at most what the tokens of a batch allow, and less than half of them empty."""
    tokens, shapes = tokenised(Source(0)), []
    for most in (5, 48, 500):
        batched = evaluation_batches(tokens, batch_tokens=most * LENGTH)
        for t in range(len(batched)):
            rows, length = batched.shape(t)
            shapes.append((rows, most * LENGTH // length))
            last = t + 1 == len(batched) or batched.shape(t + 1)[1] > length
            assert rows <= 2 * batched.num_filled(t) or (last and rows == most * LENGTH // length)
    assert all(rows == full or (rows < full and rows.bit_count() == 1) for rows, full in shapes)
    assert {rows < full for rows, full in shapes} == {True, False}


def test_the_largest_batches_need_as_much_as_any(tokenised):
    """Also where the longest rows are few: one alone is a small batch."""
    tokens = tokenised(Source(0))
    for most in (1, 5, 48, 500):
        batched = evaluation_batches(tokens, batch_tokens=most * LENGTH)
        shapes = [batched.shape(t) for t in batched.largest()]
        every = [batched.shape(t) for t in range(len(batched))]
        assert max(length for _, length in shapes) == max(length for _, length in every)
        assert max(map(math.prod, shapes)) == max(map(math.prod, every))
        assert len(shapes) == len(set(shapes)) <= 2


@PACKED
def test_a_batch_of_each_length_the_longest_first(tokenised, packed):
    batched = training_batches(tokenised(Source(0)), packed, 3, batch_tokens=3 * LENGTH)
    found = [batched.shape(t) for t in batched.first_of_each_length()]
    assert found == sorted({batched.shape(t) for t in range(len(batched))}, key=lambda x: -x[1])
    assert (len(found) == 1) == packed


@PACKED
def test_the_filled_rows_of_a_batch_are_its_first(tokenised, packed):
    tokens, empty = tokenised(Source(0)), 0
    for rows in (3, 5, 7):
        batched = training_batches(tokens, packed, 1, rows * LENGTH)
        for t in range(2 * len(batched)):
            has_items = batched[t]["weights"].any(axis=1)
            count = batched.num_filled(t)
            assert has_items[:count].all()
            assert not has_items[count:].any()
            empty += len(has_items) - count
    assert empty


@PACKED
def test_hosts_share_the_global_batch(tokenised, packed):
    """Rows that pad to a multiple of the devices lie behind the batch's rows, and are empty."""
    batched = training_batches(tokenised(Source(0)), packed, 0, 5 * LENGTH)
    for t in range(len(batched)):
        num_rows = parallel_step.rows_for_devices(
            batched.shape(t)[0], layout.make_layout("jit").num_row_shards
        )
        assert num_rows % 8 == 0
        assert_hosts_share(batched, t, num_rows)
        padded = batched.rows(t, 0, num_rows)
        for array, whole in zip(*map(jax.tree.leaves, (padded, batched[t])), strict=True):
            assert len(array) == num_rows
            np.testing.assert_array_equal(array[: len(whole)], whole)
            assert (array[len(whole) :] == 0).all()


def test_blank_and_long_training_pairs_are_dropped_and_counted(tokenised, vocabulary, caplog):
    source = Source(7, count=80, longest=14, blank=[(0, 0), (3, 1), (5, 0), (5, 1)])
    tokens = tokenised(source)
    pairs = pairs_of(source, vocabulary)
    blank = sum(min(map(len, pair)) == 1 for pair in pairs)
    long = sum(max(map(len, pair)) > LENGTH and min(map(len, pair)) > 1 for pair in pairs)
    assert blank == 3
    assert 5 < long < 60
    with caplog.at_level(logging.INFO):
        batched = training_batches(tokens, True, 0)
    assert f"{blank} blank on a side, {long} over data.max_length={LENGTH}, of 80" in caplog.text
    kept = [p for p in pairs if min(map(len, p)) > 1 and max(map(len, p)) <= LENGTH]
    assert sorted(epoch(batched, 0)) == sorted(kept)


@pytest.mark.parametrize("batch_tokens", [1, 5 * LENGTH, 1000 * LENGTH])
def test_evaluation_drops_nothing(tokenised, vocabulary, batch_tokens):
    source = Source(8, count=120, longest=30, blank=[(0, 0), (3, 1), (5, 0), (5, 1)])
    tokens = tokenised(source)
    longest = int(max(tokens.sides["source"].lengths.max(), tokens.sides["target"].lengths.max()))
    assert longest > 2 * LENGTH
    batched = evaluation_batches(tokens, batch_tokens)
    assert sorted(epoch(batched, 0)) == sorted(pairs_of(source, vocabulary))
    lengths = [batched[t]["targets"].shape[1] for t in range(len(batched))]
    assert set(lengths) <= set(packing.static_lengths(LENGTH, longest))
    assert lengths == sorted(lengths)
    assert epoch(batched, 0) == epoch(batched, 1)


def test_prefetch_keeps_order_and_is_one_ahead():
    loaded = []
    for count, t in enumerate(batches.prefetch(lambda t: loaded.append(t) or t, range(5, 9)), 1):
        assert t == 4 + count
        assert len(loaded) <= count + 1
    assert loaded == [5, 6, 7, 8]
    assert list(batches.prefetch(loaded.append, [])) == []


def test_prefetch_loads_while_the_caller_works():
    working = threading.Event()
    found = batches.prefetch(lambda t: t == 0 or working.wait(5), range(2))
    next(found)
    working.set()
    assert next(found)
