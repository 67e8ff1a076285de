"""Batches of sentence pairs, as training makes them, and how they are read back."""

import functools
from pathlib import Path

import jax
import numpy as np
from helpers import tiny
from helpers.corpora import LENGTH

from transformer.data import batches, packing, tokenizer
from transformer.data import pairs as pair_arrays
from transformer.tasks import splits, translation, vocabularies


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


def batches_of_a_run(config):
    """A run's training batches and vocabulary, as a new process makes them."""
    folder = Path(config.data.directory, "run")
    config = translation.prepare(config.copy_and_resolve_references(), folder, None)
    vocabulary = vocabularies.read(folder, config)
    tokens = splits.prepared_tokens(config, vocabulary)
    return translation.training_batches(config, tokens), vocabulary


def assert_hosts_share(batched, t, rows):
    """Asserts that the rows of 1, 2 or 4 hosts, one after the other, are those of batch t."""
    for hosts in (1, 2, 4):
        share = -(-rows // hosts)
        parts = [batched.rows(t, host * share, (host + 1) * share) for host in range(hosts)]
        joined = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        tiny.assert_same_bits(joined, batched.rows(t, 0, hosts * share))


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
                assert (inputs[f"{side}_positions"][row, places] == np.arange(len(places))).all()
                ids = (inputs["source"] if side == "source" else targets)[row, places].tolist()
                assert ids.index(tokenizer.END) == len(ids) - 1
                pair.append(tuple(ids))
            assert inputs["target"][row, places].tolist() == [tokenizer.START, *pair[1][:-1]]
            found.append(tuple(pair))
        assert laid["target"] == weights[row].sum()
        assert (weights[row, : laid["target"]] == 1).all()
        assert inputs["target_segments"][row].max() == inputs["source_segments"][row].max()
        for name, array in {**inputs, "targets": targets, "weights": weights}.items():
            side = "source" if name.startswith("source") else "target"
            assert (array[row, laid[side] :] == 0).all()
    return found


def pairs_of(source, vocabulary):
    sides = zip(*source.pairs, strict=True)
    encoded = [side.encode(texts) for side, texts in zip(vocabulary, sides, strict=True)]
    return [tuple(map(tuple, pair)) for pair in zip(*encoded, strict=True)]


def epoch(batched, number):
    return [
        pair
        for t in range(number * len(batched), (number + 1) * len(batched))
        for pair in sentences_of(batched[t])
    ]
