"""Beam search: against brute force, a plain search, and itself in stages."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest
from helpers import table_model, tiny
from helpers.cases import slow_but
from helpers.decoders import DECODE, METHODS
from helpers.table_model import (
    LEAST,
    LIMITS,
    PENALTIES,
    PENALTY,
    PREFIXES,
    ROWS,
    V,
    bounds,
    hypotheses,
    initial_state,
    keys,
    table_log_probs,
    table_row,
    table_step,
    tables,
    wide_enough,
)

from transformer import registry
from transformer.data.tokenizer import END
from transformer.decoding import beam_search, methods, selection


@functools.partial(
    tiny.jit, static_argnames=("length", "width", "penalty", "stopping", "num_hypotheses")
)
def search_tables(tables, bounds, alpha, *, length, width, **options):
    state = initial_state(tables, width, length)
    options |= {"alpha": alpha}
    final = table_model.search(beam_search, table_step, tables, state, bounds, **options)
    return final.tokens_BWT, final.scores_BW


def plain_search(log_probs, limit, width, alpha, penalty, stopping, num_hypotheses, least, prefix):
    """A reference beam search with Python lists: [(ids, score)], best first.

    `log_probs(prefixes)` gives an array over the vocabulary for each prefix.
    """
    live, finished = [((), 0.0)], []
    for t in range(limit + 1):
        candidates = []
        for (ids, total), following in zip(live, log_probs([p for p, _ in live]), strict=True):
            tokens = [END] if t == limit else range(len(following))
            tokens = [token for token in tokens if token != END or t >= least]
            tokens = [prefix[t]] if t < len(prefix) else tokens
            candidates += [((*ids, token), total + following[token]) for token in tokens]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [c for c in candidates[:width] if c[0][-1] == END]
        finished += [(ids, total / PENALTY[penalty](len(ids), alpha)) for ids, total in ended]
        finished.sort(key=lambda hypothesis: -hypothesis[1])
        live = [c for c in candidates if c[0][-1] != END][:width]
        if not live:
            break
        now = live[0][1] / PENALTY[penalty](t + 1, alpha)
        is_ahead = len(finished) < num_hypotheses or finished[num_hypotheses - 1][1] < now
        is_full = len(finished) >= width
        if {"full": is_full, "ahead": not is_ahead, "best": is_full and not is_ahead}[stopping]:
            break
        reachable = live[0][1] / PENALTY[penalty](limit + 1, alpha)
        if len(finished) >= num_hypotheses and finished[num_hypotheses - 1][1] >= reachable:
            break
    return finished[:width]


def assert_same(found, expected, tolerance):
    assert [ids for ids, _ in found] == [ids for ids, _ in expected]
    np.testing.assert_allclose(
        [score for _, score in found], [score for _, score in expected], rtol=0, atol=tolerance
    )


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
@pytest.mark.parametrize("limit", [3, 4])
def test_wide_beam_is_brute_force(kind, alpha, limit):
    """Wide enough for every hypothesis of at most `limit` tokens and the end symbol.

    The three best are compared.
    """
    every_table = tables(range(8), spread=1.5)
    limits = [limit, limit - 1, 1, 0] * 2
    width = V * (V - 1) ** (limit - 1)
    length = limit + 2
    options = {"length": length, "width": width, "penalty": kind, "num_hypotheses": 3}
    tokens, scores = search_tables(every_table, bounds(limits, length), alpha, **options)
    for b, most in enumerate(limits):
        expected = {}
        following = functools.partial(table_log_probs, every_table[b])
        others = [token for token in range(V) if token != END]
        for length in range(most + 1):
            for prefix in itertools.product(others, repeat=length):
                ids = (*prefix, END)
                total = sum(following(ids[:t])[ids[t]] for t in range(len(ids)))
                expected[ids] = total / PENALTY[kind](len(ids), alpha)
        found = hypotheses(tokens[b], scores[b])
        assert_same(found[:3], sorted(expected.items(), key=lambda item: -item[1])[:3], 1e-5)
        assert len({ids for ids, _ in found}) == len(found)
        for ids, score in found:
            assert score == pytest.approx(expected[ids], abs=1e-5)


FREE = [0] * 24, [()] * 24
BOUNDS = {"free": FREE, "prefixes": (FREE[0], PREFIXES), "least": (LEAST, FREE[1])}
BOUNDS["both"] = LEAST, PREFIXES[::-1]


@pytest.mark.parametrize(("least", "prefixes"), slow_but([*BOUNDS.values()], FREE), ids=BOUNDS)
@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
@pytest.mark.parametrize(
    ("width", "n", "stopping"),
    [(1, 1, "best"), (2, 1, "best"), (3, 1, "ahead"), (3, 2, "full"), (40, 3, "best")],
)
def test_narrow_beam_is_the_plain_search(width, n, stopping, kind, alpha, least, prefixes):
    """Covers which beams live on, when a sentence is done, and that its batch does not matter."""
    every_table = tables(range(24), spread=1.5)
    limits = wide_enough(LIMITS, least, prefixes)
    kept = bounds(limits, 13, least, prefixes)
    options = {"penalty": kind, "stopping": stopping, "num_hypotheses": n}
    tokens, scores = search_tables(every_table, kept, alpha, length=13, width=width, **options)
    for b, limit in enumerate(limits):
        expected = plain_search(
            lambda prefixes, b=b: [table_log_probs(every_table[b], p) for p in prefixes],
            *(limit, width, alpha),
            **options,
            least=least[b],
            prefix=prefixes[b],
        )
        assert_same(hypotheses(tokens[b], scores[b]), expected, 1e-5)


def steps_taken(table, limit, width, alpha, num_hypotheses=1):
    """Returns the number of steps of a search of one sentence, and its hypotheses."""
    taken = []

    @tiny.jit
    def search(table):
        step = functools.partial(table_step, count=lambda: taken.append(1))
        state, kept = initial_state(table, width, limit + 1), bounds([limit], limit + 1)
        options = {"penalty": "gnmt", "alpha": alpha, "num_hypotheses": num_hypotheses}
        return table_model.search(beam_search, step, table, state, kept, **options)

    found = jax.block_until_ready(search(table))
    jax.effects_barrier()
    assert len(taken) == found.t
    return len(taken), hypotheses(found.tokens_BWT[0], found.scores_BW[0])


def test_stops_when_no_live_beam_can_win():
    """The model: the end symbol at once with P 0.6, else 30 times token 4, then the end symbol."""
    table = np.full((1, ROWS, V), -20.0, np.float32)
    table[0, :, 4] = 20.0
    table[0, table_row(())] = [-20.0, math.log(0.6), -20.0, -20.0, math.log(0.4)]
    table[0, table_row((4,) * 30)] = [-20.0, 20.0, -20.0, -20.0, -20.0]
    steps, [(ids, score), *_] = steps_taken(table, 30, 4, 0.0)
    assert (steps, ids) == (1, (END,))
    assert score == pytest.approx(math.log(0.6), abs=1e-4)
    # With this penalty the long hypothesis wins, and the search goes on until then.
    steps, [(ids, score), *_] = steps_taken(table, 30, 4, 1.0)
    assert (steps, ids) == (31, (*[4] * 30, END))
    assert score == pytest.approx(math.log(0.4) / 6, abs=1e-4)
    # The search also goes on if two hypotheses are requested.
    steps, [(first, _), (second, score), *_] = steps_taken(table, 30, 4, 0.0, num_hypotheses=2)
    assert (steps, first, second) == (31, (END,), (*[4] * 30, END))
    assert score == pytest.approx(math.log(0.4), abs=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_search_in_stages_equals_one_of_a_single_stage(name):
    """Stages end when some sentences are done, the room is full, or all are done."""
    changes = {"length_penalty": "power", "length_alpha": 1.0, "num_hypotheses": 2}
    changes |= {"temperature": 1.2, "top_k": 4, "top_p": 0.95}
    method = registry.load(registry.METHODS[name])(methods.Decode(**{**DECODE, **changes}))
    every_table = tables(range(24), spread=1.5)
    kept = bounds(wide_enough(LIMITS, LEAST, PREFIXES), 24, LEAST, PREFIXES)

    @tiny.jit
    def go_on(search, until):
        options = {**dict(method.options), "rng_B": keys(24), "until_active": until}
        return table_model.search(method, table_step, every_table, search, kept, **options)

    whole = go_on(initial_state(every_table, 3, 24), 0)
    search, places = initial_state(every_table, 3, 3), []
    for room, until in [(3, 16), (3, 0), (6, 18), (6, 9), (12, 9), (12, 4), (24, 4), (24, 0)]:
        search = go_on(search.grow(room // search.tokens_BWT.shape[-1]), until)
        places.append(int(search.t))
        assert int(search.active_B.sum()) <= until or search.t == room
    assert len(set(places)) > 4
    np.testing.assert_array_equal(search.tokens_BWT, whole.tokens_BWT)
    np.testing.assert_array_equal(search.scores_BW, whole.scores_BW)


@pytest.mark.parametrize("size", [1, 13, 64, 192, 997])
@pytest.mark.parametrize("beams", slow_but([1, 3], 3))
def test_likeliest_is_top_k(size, beams):
    """Ties included; the vocabulary's size is a multiple of the block of 64, or is not."""
    random = np.random.default_rng(size)
    few = random.integers(-3, 1, (16, beams, size)).astype(np.float32)  # mostly ties
    few[random.random(few.shape) < 0.3] = -np.inf
    few[0] = -np.inf
    logits = np.concatenate([few, random.standard_normal((16, beams, size)).astype(np.float32)])
    logits[::4, :, 0] = 9.0  # the largest, which is forbidden in half of the sentences below
    offset = random.integers(-2, 1, (32, beams)).astype(np.float32)
    forbidden = random.random((32, min(size, 4))) < 0.5
    values = logits + offset[:, :, None]
    values[:, :, : forbidden.shape[1]][np.repeat(forbidden[:, None], beams, axis=1)] = -np.inf
    jitted = jax.jit(selection.likeliest, static_argnames="count")
    for count in {1, 2, 6, 25, beams * size} & set(range(beams * size + 1)):
        best, index = map(np.asarray, jitted(logits, offset, forbidden, count=count))
        expected_index = np.argsort(-values.reshape(32, -1), axis=1, kind="stable")[:, :count]
        expected = np.take_along_axis(values.reshape(32, -1), expected_index, axis=1)
        np.testing.assert_array_equal(best, expected)
        is_none = best == -np.inf  # these may be of other indices
        np.testing.assert_array_equal(index[~is_none], expected_index[~is_none])
        assert ((index >= 0) & (index < beams * size)).all()
