"""Batch t is a pure function of (corpus, seed, t); an epoch holds each training pair once."""

import errno
import functools
import logging
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading

import jax
import numpy as np
import pytest
from helpers.corpora import LENGTH, Source, learn

from transformer.data import batches, packing, tokenizer
from transformer.data import pairs as pair_arrays
from transformer.data.tokens import tokenise
from transformer.distributed import layout, step
from transformer.errors import UserError

ROOT = str(pathlib.Path(__file__).resolve().parents[2])


@pytest.fixture(scope="module")
def vocabulary():
    """Two different models, so that mixed-up sides would show."""
    return tokenizer.Vocabulary(learn("source"), learn("target", size=300))


@pytest.fixture
def tokenised(vocabulary, tmp_path):
    return lambda source: tokenise(source, vocabulary, tmp_path)


def training_batches(tokens, packed, seed, batch_tokens=5 * LENGTH):
    """Training batches, as in transformer/tasks/translation.py."""
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    groups = (
        [packing.pack(tokens.lengths, pairs, LENGTH, seed, tokens.directory)]
        if packed
        else packing.one_per_row(tokens.lengths, pairs, LENGTH)
    )
    assemble = functools.partial(pair_arrays.assemble, tokens)
    return batches.Batches(groups, batch_tokens, seed, assemble)


def evaluation_batches(tokens, batch_tokens=5 * LENGTH):
    """Evaluation batches, as in transformer/tasks/translation_evaluator.py."""
    pairs = np.arange(len(tokens.source_lengths))
    groups = packing.one_per_row(tokens.lengths, pairs, LENGTH)
    assemble = functools.partial(pair_arrays.assemble, tokens)
    return batches.Batches(groups, batch_tokens, None, assemble)


def sentences_of(batch):
    """Reads the pairs of a batch back, segment by segment, as (source ids, target ids).

    Asserts that segments are contiguous, positions restart, and all else is zero.
    """
    inputs, targets, weights = batch["inputs"], batch["targets"], batch["weights"]
    found = []
    for row in range(len(targets)):
        laid = {"source": 0, "target": 0}
        for segment in range(1, inputs["source_segments"][row].max(initial=0) + 1):
            pair = []
            for side in ("source", "target"):
                (places,) = np.nonzero(inputs[f"{side}_segments"][row] == segment)
                # Contiguous, right behind the segment before it; positions restart.
                assert (places == laid[side] + np.arange(len(places))).all()
                laid[side] += len(places)
                positions = inputs[f"{side}_positions"][row, places]
                assert (positions == np.arange(len(places))).all()
                ids = (inputs["source"] if side == "source" else targets)[row, places].tolist()
                assert ids.index(tokenizer.END) == len(ids) - 1
                pair.append(tuple(ids))
            shifted = inputs["target"][row, places].tolist()
            assert shifted == [tokenizer.START, *pair[1][:-1]]
            found.append(tuple(pair))
        assert laid["target"] == weights[row].sum()
        assert (weights[row, : laid["target"]] == 1).all()
        assert inputs["target_segments"][row].max() == inputs["source_segments"][row].max()
        for name, array in {**inputs, "targets": targets, "weights": weights}.items():
            side = "source" if name.startswith("source") else "target"
            assert (array[row, laid[side] :] == 0).all()
    return found


def pairs_of(source, vocabulary):
    sides = source.read(range(len(source)))
    encoded = [tokenizer.encode(vocabulary[side], sides[side]) for side in (0, 1)]
    return [tuple(map(tuple, pair)) for pair in zip(*encoded, strict=True)]


def assert_equal(batch, other):
    assert jax.tree.structure(batch) == jax.tree.structure(other)
    for x, y in zip(jax.tree.leaves(batch), jax.tree.leaves(other), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def epoch(batched, number):
    return [
        pair
        for t in range(number * len(batched), (number + 1) * len(batched))
        for pair in sentences_of(batched[t])
    ]


PACKED = pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])


# What an epoch holds


@PACKED
@pytest.mark.parametrize("seed", range(5))
def test_every_pair_once_an_epoch(tokenised, vocabulary, packed, seed):
    """Of random corpora, row lengths and batch sizes."""
    chosen = random.Random(seed)
    source = Source(seed, count=chosen.randint(1, 200), longest=chosen.randint(1, 9))
    tokens = tokenised(source)
    batched = training_batches(
        tokens, packed, seed, chosen.choice([1, LENGTH, 7 * LENGTH, 500 * LENGTH])
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


@PACKED
def test_a_batch_of_each_length_the_longest_first(tokenised, packed):
    batched = training_batches(tokenised(Source(0)), packed, 3, batch_tokens=3 * LENGTH)
    found = [batched.shape(t) for t in batched.first_of_each_length()]
    assert found == sorted({batched.shape(t) for t in range(len(batched))}, key=lambda x: -x[1])
    assert (len(found) == 1) == packed


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


# A pure function of t


@PACKED
def test_any_order_gives_equal_batches(tokenised, packed):
    source = Source(0)
    batched = training_batches(tokenised(source), packed, 3)
    numbers = range(4 * len(batched))
    before = [batched[t] for t in numbers]
    again = training_batches(tokenised(source), packed, 3)  # as after a restart
    for t in random.Random(0).sample(numbers, len(numbers)):
        batches._permutation.cache_clear()
        assert_equal(again[t], before[t])


@PACKED
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_hosts_share_the_global_batch(tokenised, packed, hosts):
    """Rows that pad to a multiple of the devices lie behind the batch's rows, and are empty."""
    batched = training_batches(tokenised(Source(0)), packed, 0, 5 * LENGTH)
    for t in range(len(batched)):
        num_rows = step.rows_for_devices(
            batched.shape(t)[0], layout.make_layout("jit").num_row_shards
        )
        assert num_rows % 8 == 0
        share = num_rows // hosts
        parts = [batched.rows(t, host * share, (host + 1) * share) for host in range(hosts)]
        joined = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        assert_equal(joined, batched.rows(t, 0, num_rows))
        for array, whole in zip(*map(jax.tree.leaves, (joined, batched[t])), strict=True):
            assert len(array) == num_rows
            np.testing.assert_array_equal(array[: len(whole)], whole)
            assert (array[len(whole) :] == 0).all()


def test_rows_beyond_the_last_are_empty(tokenised):
    batched = training_batches(tokenised(Source(0)), True, 0)
    for array in jax.tree.leaves(batched.rows(0, 40, 43)):
        assert array.shape == (3, LENGTH)
        assert (array == 0).all()


# Dropped pairs


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


def test_nothing_is_logged_where_nothing_is_dropped(tokenised, caplog):
    with caplog.at_level(logging.INFO):
        assert len(packing.select_trainable(tokenised(Source(0, longest=3)).lengths, LENGTH)) == 150
    assert not caplog.text


def test_pairs_of_just_the_longest_length_are_kept(tokenised):
    tokens = tokenised(Source(0))
    longest = np.maximum(tokens.source_lengths, tokens.target_lengths)
    most = int(longest.max())
    assert len(packing.select_trainable(tokens.lengths, most)) == 150
    assert len(packing.select_trainable(tokens.lengths, most - 1)) == (longest < most).sum() < 150


@pytest.mark.parametrize("batch_tokens", [1, 5 * LENGTH, 1000 * LENGTH])
def test_evaluation_drops_nothing(tokenised, vocabulary, batch_tokens):
    source = Source(8, count=120, longest=30, blank=[(0, 0), (3, 1), (5, 0), (5, 1)])
    tokens = tokenised(source)
    longest = int(max(tokens.source_lengths.max(), tokens.target_lengths.max()))
    assert longest > 2 * LENGTH
    batched = evaluation_batches(tokens, batch_tokens)
    assert sorted(epoch(batched, 0)) == sorted(pairs_of(source, vocabulary))
    lengths = [batched[t]["targets"].shape[1] for t in range(len(batched))]
    assert set(lengths) <= set(packing.static_lengths(LENGTH, longest))
    assert lengths == sorted(lengths)
    assert epoch(batched, 0) == epoch(batched, 1)


# The cache


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_second_call_reads_the_cache(tokenised):
    source = Source(0)
    first = tokenised(source)
    assert source.reads == 1
    second = tokenised(source)
    assert source.reads == 1
    assert second.directory == first.directory
    for x, y in zip(first[:4], second[:4], strict=True):
        np.testing.assert_array_equal(x, y)


def test_cache_is_keyed_by_content(tokenised, vocabulary, tmp_path):
    folders = {tokenised(Source(seed)).directory for seed in (0, 1)}
    swapped = tokenizer.Vocabulary(vocabulary.target, vocabulary.source)
    for other in (swapped, tokenizer.Vocabulary(vocabulary.source, vocabulary.source)):
        folders.add(tokenise(Source(0), other, tmp_path).directory)
    assert len(folders) == 4
    assert set(tmp_path.iterdir()) == folders
    same = Source(2)
    same.fingerprint = Source(0).fingerprint  # the name alone counts
    assert tokenised(same).directory in folders
    assert not same.reads


def test_chunks_make_no_difference(vocabulary, tmp_path):
    """A corpus of two chunks is read completely and in order."""
    source = Source(0, count=150)
    source.pairs = source.pairs * 60  # 9000 pairs: two chunks
    tokens = tokenise(source, vocabulary, tmp_path)
    assert source.reads == 2
    assert len(tokens.source_lengths) == 9000
    once = pairs_of(Source(0), vocabulary)
    for i in (0, 8190, 8191, 8192, 8193, 8999):
        start, stop = tokens.target_offsets[i : i + 2]
        assert tuple(tokens.target[start:stop].tolist()) == once[i % 150][1]


def test_failed_writer_leaves_nothing(vocabulary, tmp_path):
    source = Source(0)
    source.read = lambda indices: 1 / 0
    with pytest.raises(ZeroDivisionError):
        tokenise(source, vocabulary, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_draft_of_a_killed_writer_is_removed_by_the_next(vocabulary, tmp_path):
    (tmp_path / "source.model").write_bytes(vocabulary.source.serialized_model_proto())
    program = """
        import os, pathlib, signal, sys
        from transformer.data import tokenizer, tokens

        class Source:
            fingerprint = sys.argv[2]
            __len__ = lambda self: 9000
            def read(self, indices):
                if indices[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return ["wrong"] * len(indices), ["wrong"] * len(indices)

        folder = pathlib.Path(sys.argv[1])
        pieces = tokenizer.load((folder / "source.model").read_bytes(), "test")
        tokens.tokenise(Source(), tokenizer.Vocabulary(pieces, pieces), folder / "tokens")
    """
    arguments = [tmp_path, Source(0).fingerprint]
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    killed = subprocess.run(command, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    (draft,) = (tmp_path / "tokens").iterdir()
    assert "draft" in draft.name

    both = tokenizer.Vocabulary(vocabulary.source, vocabulary.source)
    tokens = tokenise(Source(0), both, tmp_path / "tokens")
    assert len(tokens.source_lengths) == 150
    assert draft.name.startswith(tokens.directory.name)  # it was the same cache
    assert set((tmp_path / "tokens").iterdir()) == {tokens.directory}


def test_of_two_writers_the_first_to_finish_serves_both(vocabulary, tmp_path):
    source = Source(0)
    read, others = source.read, []

    def read_while_another_finishes(indices):
        if not others:
            others.append(None)
            others[0] = tokenise(Source(0), vocabulary, tmp_path)
        return read(indices)

    source.read = read_while_another_finishes
    ours = tokenise(source, vocabulary, tmp_path)
    assert ours.directory == others[0].directory
    assert list(tmp_path.iterdir()) == [ours.directory]
    np.testing.assert_array_equal(ours.target, others[0].target)


def test_a_full_disk_is_one_line_and_leaves_nothing(vocabulary, tmp_path, no_file_over):
    with no_file_over(1000), pytest.raises(UserError, match=r"cannot write to .*df -h.*data_dir"):
        tokenise(Source(0), vocabulary, tmp_path)
    assert not list(tmp_path.iterdir())
    tokens = tokenise(Source(0), vocabulary, tmp_path)
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    with no_file_over(100), pytest.raises(UserError, match="cannot write to"):
        packing.pack(tokens.lengths, pairs, LENGTH, 0, tokens.directory)
    assert not list(tokens.directory.glob("packed*"))


def test_without_locks_drafts_are_left_alone(vocabulary, tmp_path, monkeypatch):
    """As on some shared disks: another process may be writing the draft."""

    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / "0123-draft-abc").mkdir()
    tokens = tokenise(Source(0), vocabulary, tmp_path)
    assert set(tmp_path.iterdir()) == {tokens.directory, tmp_path / "0123-draft-abc"}


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


# Prefetch


def test_ahead_keeps_order_and_is_one_ahead():
    loaded = []
    found = batches.prefetch(lambda t: loaded.append(t) or {"t": t}, range(5, 9))
    assert next(found) == {"t": 5}
    found = [5, *(batch["t"] for batch in found)]
    assert found == loaded == [5, 6, 7, 8]
    assert list(batches.prefetch(loaded.append, [])) == []


def test_ahead_loads_no_more_than_one_ahead():
    loaded = []
    for count, _ in enumerate(batches.prefetch(loaded.append, range(9)), start=1):
        assert len(loaded) <= count + 1


def test_ahead_loads_while_the_caller_works():
    """The caller has batch 0 while batch 1 is being loaded."""
    working = threading.Event()
    found = batches.prefetch(lambda t: t == 0 or working.wait(5), range(2))
    next(found)
    working.set()
    assert next(found)


def test_an_error_of_the_loader_is_raised_in_the_caller():
    def load(t):
        if t == 2:
            raise OSError(f"batch {t} is gone")
        return t

    found = batches.prefetch(load, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(OSError, match="batch 2 is gone"):
        next(found)
