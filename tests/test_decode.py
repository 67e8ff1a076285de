"""Greedy and beam search: against each other, brute force, and a plain search by full passes."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reversal
import tiny

from transformer import decode
from transformer.tokenizer import END, PAD, START


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [
        (1, 0.6, 1.0),
        (7, 0.6, 2**0.6),
        (19, 0.6, 4**0.6),
        (13, 1.0, 3.0),
        (31, 1.5, 6**1.5),
        (10, 0.0, 1.0),
        (25, 0.6, 2.626527804403767),
    ],
)
def test_length_penalty(length, alpha, expected):
    assert float(decode.length_penalty(length, alpha)) == pytest.approx(expected, rel=1e-6)


# A model that is a table: what follows depends on the whole prefix, through a hash that the cache
# holds, and on the sentence, through the memory. A beam that got another's cache would go astray.

V, ROWS = 5, 4093


def tables(seeds, spread=1.0, end=0.0):
    """Logits by hash, one table a sentence; `end` is added to the end symbol's."""
    noise = [np.random.default_rng(seed).standard_normal((ROWS, V)) for seed in seeds]
    return (spread * np.array(noise) + end * (np.arange(V) == END)).astype(np.float32)


def table_step(tokens_BWT, positions_BWT, tables_B, cache, *, count=None):
    if count is not None:
        jax.debug.callback(count)
    prefix_BW = (cache["prefix"][:, :, 0] * 31 + tokens_BWT[:, :, 0] + 7) % ROWS
    # The place in the prefix counts once more, so that a wrong one would be noticed.
    rows_BW = (prefix_BW + 577 * positions_BWT[:, :, 0]) % ROWS
    logits_BWV = jax.vmap(lambda table, rows: table[rows])(tables_B, rows_BW)
    return logits_BWV[:, :, None], {"prefix": prefix_BW[:, :, None]}


def table_row(prefix):
    """The row of what follows a prefix, a tuple of ids."""
    state = 0
    for token in (START, *prefix):
        state = (state * 31 + token + 7) % ROWS
    return (state + 577 * len(prefix)) % ROWS


def table_log_probs(table, prefix):
    """Log probabilities of what follows a prefix, in float64."""
    logits = table[table_row(prefix)].astype(np.float64)
    return logits - np.log(np.exp(logits).sum())


def table_cache(count):
    return {"prefix": jnp.zeros((count, 1, 1), jnp.int32)}


@functools.partial(tiny.jit, static_argnames=("length", "width"))
def search_tables(tables, limits, alpha, *, length, width):
    return decode.beam_search(
        table_step,
        tables,
        table_cache(len(tables)),
        limits,
        length,
        beam_width=width,
        alpha=alpha,
    )


def hypotheses(tokens, scores):
    """One sentence's finished hypotheses, [(ids with the end symbol, score)]; each well formed."""
    found = []
    for row, score in zip(np.asarray(tokens).tolist(), np.asarray(scores).tolist(), strict=True):
        if score == -math.inf:
            continue
        end = row.index(END) + 1
        assert set(row[end:]) <= {PAD}
        found.append((tuple(row[:end]), score))
    return found


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def plain_search(log_probs, limit, width, alpha):
    """The same beam search, one hypothesis at a time: `log_probs(prefixes)` are those of each.

    [(ids, score)], best first.
    """
    live, finished = [((), 0.0)], []
    for t in range(limit + 1):
        candidates = []
        for (prefix, total), following in zip(live, log_probs([p for p, _ in live]), strict=True):
            tokens = [END] if t == limit else range(len(following))
            candidates += [((*prefix, token), total + following[token]) for token in tokens]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [c for c in candidates[:width] if c[0][-1] == END]
        finished += [(ids, total / penalty(len(ids), alpha)) for ids, total in ended]
        finished.sort(key=lambda hypothesis: -hypothesis[1])
        live = [c for c in candidates if c[0][-1] != END][:width]
        if len(finished) >= width or not live:
            break
        if finished and finished[0][1] >= live[0][1] / penalty(limit + 1, alpha):
            break
    return finished[:width]


def assert_same(found, expected, tolerance):
    assert [ids for ids, _ in found] == [ids for ids, _ in expected]
    np.testing.assert_allclose(
        [score for _, score in found], [score for _, score in expected], rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("limit", [3, 4])
def test_wide_beam_is_brute_force(alpha, limit):
    """With room for every hypothesis of at most `limit` tokens and the end symbol."""
    seeds = range(8)
    every_table = tables(seeds, spread=1.5)
    limits = [limit, limit - 1, 1, 0] * 2
    width = V * (V - 1) ** (limit - 1)
    tokens, scores = search_tables(
        every_table, jnp.array(limits), alpha, length=limit + 2, width=width
    )
    for b, most in enumerate(limits):
        expected = {}
        following = functools.partial(table_log_probs, every_table[b])
        others = [token for token in range(V) if token != END]
        for length in range(most + 1):
            for prefix in itertools.product(others, repeat=length):
                ids = (*prefix, END)
                total = sum(following(ids[:t])[ids[t]] for t in range(len(ids)))
                expected[ids] = total / penalty(len(ids), alpha)
        found = hypotheses(tokens[b], scores[b])
        assert_same(found[:1], [max(expected.items(), key=lambda item: item[1])], 1e-5)
        assert len({ids for ids, _ in found}) == len(found)
        for ids, score in found:
            assert score == pytest.approx(expected[ids], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("width", [2, 3])
def test_narrow_beam_is_the_plain_search(width, alpha):
    """Also: which beams live on, when a sentence is done, and that it changes no more then."""
    seeds = range(24)
    every_table = tables(seeds, spread=1.5)
    limits = [8, 3, 12] * 8
    tokens, scores = search_tables(every_table, jnp.array(limits), alpha, length=13, width=width)
    for b, limit in enumerate(limits):
        expected = plain_search(
            lambda prefixes, b=b: [table_log_probs(every_table[b], p) for p in prefixes],
            *(limit, width, alpha),
        )
        assert_same(hypotheses(tokens[b], scores[b]), expected, 1e-5)


def test_hypotheses_come_best_first_and_end_within_the_limit():
    """Where the end symbol is unlikely, it is forced behind the last token allowed."""
    limits = [7, 0, 3, 1]
    never = tables(range(4), end=-20.0)
    tokens, scores = search_tables(never, jnp.array(limits), 0.6, length=8, width=4)
    np.testing.assert_array_equal(scores, -np.sort(-np.asarray(scores)))
    for b, limit in enumerate(limits):
        found = hypotheses(tokens[b], scores[b])
        assert len(found) == min(4, (V - 1) ** limit)
        assert {len(ids) for ids, _ in found} == {limit + 1}
    greedy = decode.greedy(table_step, never, table_cache(4), jnp.array(limits), 8)
    assert [row.index(END) for row in greedy.tolist()] == limits


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_width_one_is_greedy_on_tables(alpha):
    every_table, limits = tables(range(32)), jnp.array([3, 12] * 16)
    tokens, _ = search_tables(every_table, limits, alpha, length=13, width=1)
    expected = tiny.jit(functools.partial(decode.greedy, table_step, length=13))(
        every_table, table_cache(32), limits
    )
    np.testing.assert_array_equal(tokens[:, 0], expected)


def test_a_sentence_does_not_depend_on_its_batch():
    """A neighbour that takes longer lets it alone: exactly the same tokens and scores."""
    every_table, limits = tables(range(16), spread=2.0), [2, 20] * 8
    search = functools.partial(search_tables, alpha=0.6, length=21, width=3)
    together = search(every_table, jnp.array(limits))
    for b, limit in enumerate(limits):
        alone = search(every_table[b : b + 1], jnp.array([limit]))
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_of_them[b])


def steps_taken(table, limit, width, alpha):
    """How many steps a search of one sentence takes, and its best hypothesis."""
    taken = []

    @tiny.jit
    def search(table):
        step = functools.partial(table_step, count=lambda: taken.append(1))
        return decode.beam_search(
            step,
            table,
            table_cache(1),
            jnp.array([limit]),
            limit + 1,
            beam_width=width,
            alpha=alpha,
        )

    tokens, scores = jax.block_until_ready(search(table))
    jax.effects_barrier()
    return len(taken), hypotheses(tokens[0], scores[0])[0]


def test_stops_when_no_live_beam_can_win():
    """The end at once with probability 0.6; else 30 times symbol 4, and then the end."""
    table = np.full((1, ROWS, V), -20.0, np.float32)
    table[0, :, 4] = 20.0
    table[0, table_row(())] = [-20.0, math.log(0.6), -20.0, -20.0, math.log(0.4)]
    table[0, table_row((4,) * 30)] = [-20.0, 20.0, -20.0, -20.0, -20.0]
    steps, (ids, score) = steps_taken(table, 30, 4, 0.0)
    assert (steps, ids) == (1, (END,))
    assert score == pytest.approx(math.log(0.6), abs=1e-4)
    # With this penalty the long way wins at the end, and is not given up before.
    steps, (ids, score) = steps_taken(table, 30, 4, 1.0)
    assert (steps, ids) == (31, (*[4] * 30, END))
    assert score == pytest.approx(math.log(0.4) / 6, abs=1e-4)


def test_stops_when_beam_width_hypotheses_are_finished():
    """A likely end makes them soon, though the penalty would let live beams win much later."""
    steps, _ = steps_taken(tables([0], spread=0.1, end=3.0), 30, 2, 1.5)
    assert steps < 6


# The Transformer, with the cache that it keeps.


@functools.partial(tiny.jit, static_argnames=("model", "extra", "width", "greedy"))
def search(model, parameters, source, *, extra, width=4, alpha=0.6, greedy=False):
    """(tokens_BWT, scores_BW) of padded sources; or the greedy tokens_BT."""
    apply = functools.partial(model.apply, {"params": parameters})
    real = source != PAD
    positions = jnp.broadcast_to(jnp.arange(source.shape[1]), source.shape)
    memory = apply(source, positions, real.astype(jnp.int32), train=False, method="encode")
    length = source.shape[1] + extra
    memory, cache = apply(memory, real, length, method="prepare")
    arguments = functools.partial(apply, method="step"), memory, cache, real.sum(1) - 1 + extra
    if greedy:
        return decode.greedy(*arguments, length)
    return decode.beam_search(*arguments, length, beam_width=width, alpha=alpha)


@functools.partial(tiny.jit, static_argnames="model")
def full_pass(model, parameters, source, target):
    """Log probabilities behind every target position of one sentence a row, without a cache."""
    inputs = {}
    for side, array in (("source", source), ("target", target)):
        positions = jnp.broadcast_to(jnp.arange(array.shape[1]), array.shape)
        inputs |= {side: array, f"{side}_positions": positions}
        inputs[f"{side}_segments"] = (array != PAD).astype(int)
    # The target's padding lies behind all that is asked for; it may be seen by nobody before it.
    inputs["target_segments"] = jnp.ones_like(target)
    logits = model.apply({"params": parameters}, **inputs, train=False)
    return jax.nn.log_softmax(logits)


def plain_search_of(model, parameters, source, limit, width, alpha):
    """`plain_search` with a full pass for each step."""

    def log_probs(prefixes):
        target = reversal.padded([[START, *p] for p in prefixes], 24)
        target = np.concatenate([target, np.full((width - len(target), 24), PAD, np.int32)])
        sources = np.repeat(reversal.padded([source], 16), width, axis=0)
        found = np.asarray(full_pass(model, parameters, sources, target), np.float64)
        return [found[w, len(p)] for w, p in enumerate(prefixes)]

    return plain_search(log_probs, limit, width, alpha)


def random_model(seed, **changes):
    model = tiny.model(**changes)
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    return model, tiny.parameters(model, inputs, seed)


def random_sources(seed, count=6):
    random = np.random.default_rng(seed)
    return [[*random.integers(2, tiny.VOCABULARY, n), END] for n in random.integers(1, 11, count)]


@pytest.fixture(scope="module")
def trained():
    return reversal.model(), reversal.parameters()


@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "final_norm": True}])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_width_one_is_greedy(changes, alpha):
    for seed in range(3):
        model, parameters = random_model(seed, **changes)
        source = reversal.padded(random_sources(seed), 16)
        tokens, _ = search(model, parameters, source, extra=4, width=1, alpha=alpha)
        expected = search(model, parameters, source, extra=4, greedy=True)
        np.testing.assert_array_equal(tokens[:, 0], expected)


@pytest.mark.parametrize(
    "changes", [{}, {"norm": "pre", "final_norm": True, "positions": "learned"}]
)
def test_cached_search_is_the_search_by_full_passes(changes):
    """Of models whose guesses are wild, so that the beams change places all the time."""
    for seed in range(3):
        model, parameters = random_model(seed, **changes)
        sources = random_sources(seed)
        tokens, scores = search(model, parameters, reversal.padded(sources, 16), extra=4)
        for b, source in enumerate(sources):
            limit = len(source) - 1 + 4
            expected = plain_search_of(model, parameters, source, limit, 4, 0.6)
            assert_same(hypotheses(tokens[b], scores[b]), expected, 1e-4)


@pytest.mark.slow
def test_cached_search_is_the_search_by_full_passes_when_trained(trained):
    sentences = reversal.sentences(8, seed=1000)
    sources = reversal.ids(sentences)
    tokens, scores = search(*trained, reversal.padded(sources, 16), extra=4)
    greedy = search(*trained, reversal.padded(sources, 16), extra=4, greedy=True)
    width_one, _ = search(*trained, reversal.padded(sources, 16), extra=4, width=1)
    np.testing.assert_array_equal(width_one[:, 0], greedy)
    for b, source in enumerate(sources):
        found = hypotheses(tokens[b], scores[b])
        expected = plain_search_of(*trained, source, len(source) - 1 + 4, 4, 0.6)
        assert_same(found, expected, 1e-4)
        [right] = reversal.ids([reversal.reverse(sentences[b])])
        assert found[0][0] == tuple(right)
        assert tuple(greedy[b].tolist()[: len(right)]) == tuple(right)


@pytest.mark.slow
def test_batch_and_padding_change_nothing(trained):
    """Each sentence alone; among seven others, in other rows; beside longer ones; padded more."""
    sources = reversal.ids(reversal.sentences(8, seed=1001, shortest=2, longest=6))
    longer = reversal.ids(reversal.sentences(7, seed=1002, shortest=14))

    def found(lists, length=0):
        tokens, scores = search(*trained, reversal.padded(lists, length), extra=4)
        return list(map(hypotheses, tokens, scores))

    together = found(sources)
    turned = found(sources[3:] + sources[:3])
    padded = found(sources, 24)
    for b in (0, 3, 7):
        source = sources[b]
        [alone] = found([source])
        neighbours = found([*longer[:b], source, *longer[b:7]])[b]
        for others in (together[b], turned[b - 3], padded[b], neighbours):
            assert_same(others[:1], alone[:1], 1e-4)
