"""Pairs are packed into rows that are well filled, or sorted into few lengths; rows are cached."""

import logging

import numpy as np
import pytest
from helpers.batching import training_batches
from helpers.corpora import LENGTH, Source

from transformer.data import packing
from transformer.data import pairs as pair_arrays


def test_rows_are_well_filled(tokenised):
    tokens = tokenised(Source(0, count=2000))
    batched = training_batches(tokens, True, 0, 20 * LENGTH)
    source, target = pair_arrays.fill_fractions(batched, tokens)
    assert min(source, target) > 0.8
    real = sum(batched[t]["weights"].sum() for t in range(len(batched)))
    assert target == pytest.approx(real / (len(batched) * 20 * LENGTH))


def test_unpacked_lengths_are_few_and_static(tokenised):
    batched = training_batches(tokenised(Source(0)), False, 0)
    lengths = {batched[t]["targets"].shape[1] for t in range(20 * len(batched))}
    assert lengths <= set(packing.static_lengths(LENGTH, LENGTH)) == {3, 6, 12, 24}
    assert len(lengths) >= 3


def test_static_lengths_double_up_to_the_longest():
    assert packing.static_lengths(64, 20) == [8, 16, 32, 64]
    assert packing.static_lengths(64, 65) == [8, 16, 32, 64, 128]
    assert packing.static_lengths(64, 1000) == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert packing.static_lengths(1, 1) == [1]


def test_nothing_is_logged_where_nothing_is_dropped(tokenised, caplog):
    with caplog.at_level(logging.INFO):
        assert len(packing.select_trainable(tokenised(Source(0, longest=3)).lengths, LENGTH)) == 150
    assert not caplog.text


def test_pairs_of_just_the_longest_length_are_kept(tokenised):
    tokens = tokenised(Source(0))
    longest = np.maximum(tokens.sides["source"].lengths, tokens.sides["target"].lengths)
    most = int(longest.max())
    assert len(packing.select_trainable(tokens.lengths, most)) == 150
    assert len(packing.select_trainable(tokens.lengths, most - 1)) == (longest < most).sum() < 150


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_packing_is_cached_by_all_it_depends_on(tokenised):
    tokens = tokenised(Source(0))
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    first = packing.pack(tokens.lengths, pairs, LENGTH, 0, tokens.directory)
    files = contents(tokens.directory)
    again = packing.pack(tokens.lengths, pairs, LENGTH, 0, tokens.directory)
    assert contents(tokens.directory) == files
    for x, y in zip(first[1:], again[1:], strict=True):
        np.testing.assert_array_equal(x, y)
    packing.pack(tokens.lengths, pairs, LENGTH, 1, tokens.directory)
    packing.pack(tokens.lengths, pairs, LENGTH + 1, 0, tokens.directory)
    packing.pack(tokens.lengths, pairs[1:], LENGTH, 0, tokens.directory)
    packings = [name for name in contents(tokens.directory) if name.startswith("packed")]
    assert len(packings) == 4
    assert len(contents(tokens.directory)) == len(files) + 3  # no temporary file is left
