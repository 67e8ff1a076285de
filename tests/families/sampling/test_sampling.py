"""Sampling: against the probabilities of a table and closed formulas."""

import collections
import functools
import math

import numpy as np
import pytest
from helpers import table_model, tiny
from helpers.decoders import LINES, hypotheses_of
from helpers.table_model import (
    LEAST,
    LIMITS,
    PENALTIES,
    PENALTY,
    PREFIXES,
    bounds,
    hypotheses,
    initial_state,
    keys,
    table_log_probs,
    table_step,
    tables,
    wide_enough,
)

from transformer.data.tokenizer import END
from transformer.families.sampling import sampling


@functools.partial(tiny.jit, static_argnames=("length", "width", "penalty", "top_k", "top_p"))
def sample_tables(tables, bounds, rng_B, *, length=13, width=4, **changes):
    options = {"penalty": "gnmt", "alpha": 0.6, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    options |= {"rng_B": rng_B, **changes}
    state = initial_state(tables, width, length)
    final = table_model.search(sampling, table_step, tables, state, bounds, **options)
    return final.tokens_BWT, final.scores_BW


def plain_nucleus(logits, top_k, top_p):
    """A reference nucleus of one row: {token: probability}."""
    likeliest = sorted(range(len(logits)), key=lambda token: -logits[token])
    if top_k:
        least = logits[likeliest[:top_k][-1]]
        likeliest = [token for token in likeliest if logits[token] >= least]
    weights = {token: math.exp(logits[token]) for token in likeliest}
    probs = {token: weight / sum(weights.values()) for token, weight in weights.items()}
    total = 0.0
    for token in likeliest:
        if total >= top_p:
            break
        total, least = total + probs[token], probs[token]
    kept = {token: prob for token, prob in probs.items() if prob >= least and prob}
    return {token: prob / sum(kept.values()) for token, prob in kept.items()}


@pytest.mark.parametrize("top_k", [0, 1, 3, 6, 7, 9])
@pytest.mark.parametrize("top_p", [1.0, 0.93, 0.61, 0.01])
def test_nucleus_is_the_plain_one(top_k, top_p):
    """Ties are in together; -inf stays -inf."""
    random = np.random.default_rng(0)
    logits = np.concatenate(
        [
            2 * random.standard_normal((20, 2, 7)),
            random.integers(0, 3, (20, 2, 7)),
            np.full((1, 2, 7), 0.5),
        ]
    ).astype(np.float32)
    logits[5:30, :, 2] = -np.inf
    got = np.asarray(sampling.truncate(logits, top_k=top_k, top_p=top_p))
    for b, w in np.ndindex(logits.shape[:2]):
        kept = plain_nucleus(logits[b, w].tolist(), top_k, top_p)
        expected = [x if v in kept else -np.inf for v, x in enumerate(logits[b, w])]
        np.testing.assert_array_equal(got[b, w], expected)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 3, 1.0), (1.3, 0, 0.7), (0.7, 4, 0.9)],
)
def test_samples_are_as_frequent_as_they_are_likely(temperature, top_k, top_p):
    """Chi-square over all 21 hypotheses of at most two tokens, from 8 equal sentences."""
    [table] = tables((3,))
    tokens, _ = sample_tables(
        np.repeat(table[None], 8, axis=0),
        bounds([2] * 8, 3),
        keys(8),
        length=3,
        width=1000,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    drawn = collections.Counter()
    for row in tokens.reshape(8000, 3).tolist():
        drawn[tuple(row[: row.index(END) + 1])] += 1

    expected = {}

    def extend(prefix, prob):
        if prefix[-1:] == (END,):
            expected[prefix] = 8000 * prob
        elif len(prefix) == 2:
            expected[(*prefix, END)] = 8000 * prob
        else:
            logits = (table_log_probs(table, prefix) / temperature).tolist()
            for token, share in plain_nucleus(logits, top_k, top_p).items():
                extend((*prefix, token), prob * share)

    extend((), 1.0)
    assert set(drawn) <= set(expected)
    chi_square = sum((drawn[ids] - count) ** 2 / count for ids, count in expected.items())
    # Its mean is the degrees of freedom, its variance twice as much.
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
def test_samples_keep_the_bounds_and_are_scored_by_their_probability(kind, alpha, temperature):
    """By the model's probability, whatever the temperature."""
    every_table, limits = tables(range(24)), wide_enough(LIMITS, LEAST, PREFIXES)
    kept, options = bounds(limits, 13, LEAST, PREFIXES), {"penalty": kind, "alpha": alpha}
    tokens, scores = sample_tables(every_table, kept, keys(24), temperature=temperature, **options)
    lengths = set()
    for b, prefix in enumerate(PREFIXES):
        found = hypotheses(tokens[b], scores[b])
        assert len(found) == 4
        for ids, score in found:
            assert ids[: len(prefix)] == prefix
            assert LEAST[b] < len(ids) <= limits[b] + 1
            following = functools.partial(table_log_probs, every_table[b])
            total = sum(following(ids[:t])[ids[t]] for t in range(len(ids)))
            assert score == pytest.approx(total / PENALTY[kind](len(ids), alpha), abs=1e-5)
            lengths.add(len(ids))
    assert len(lengths) > 8


SAMPLE = {"method": "sample", "num_hypotheses": 5, "temperature": 0.5}  # over beam_width, too


def test_samples_are_seeded(untrained):
    lines = LINES[:8]
    drawn = hypotheses_of(untrained, lines, **SAMPLE)
    assert hypotheses_of(untrained, lines, **SAMPLE) == drawn
    other = hypotheses_of(untrained, lines, **SAMPLE, seed=1)
    for line, samples, before in zip(lines, other, drawn, strict=True):
        assert (samples != before) == bool(line.strip())
        assert (len(set(samples)) > 1) == bool(line.strip())
    assert len(set(map(tuple, hypotheses_of(untrained, lines[-1:] * 5, **SAMPLE)))) == 5


@pytest.mark.parametrize("count", [sampling.TOGETHER, sampling.TOGETHER + 3])
def test_any_number_of_samples(count, untrained):
    """Samples of several searches are all different, like those of one."""
    for changes in ({}, {"batch_tokens": 1, "workers": 2}):
        [line] = hypotheses_of(
            untrained, ["e f g h a b c d"], method="sample", num_hypotheses=count, **changes
        )
        assert len(line) == count
        assert len({hypothesis.text for hypothesis in line}) == count
