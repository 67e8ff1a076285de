"""A model that is a table, for searches to be compared with brute force.

Logits depend on the whole prefix, through a hash in the cache, and on the sentence, through the
memory. A beam with the cache of another beam would get wrong logits.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import END, PAD, START
from transformer.decoding import beam_search
from transformer.decoding.beam_search import Bounds

# The closed formulas, by name.
PENALTY = {
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "power": lambda length, alpha: length**alpha,
    "none": lambda length, alpha: 1.0,
}
PENALTIES = [("gnmt", 0.0), ("gnmt", 0.6), ("gnmt", 1.5), ("power", 1.0), ("none", 0.6)]
V, ROWS = 5, 4093


@functools.cache
def tables(seeds, spread=1.0, end=0.0, size=V):
    """Logits by hash, one table per sentence; `end` is added to the end symbol's logits."""
    noise = [np.random.default_rng(seed).standard_normal((ROWS, size)) for seed in seeds]
    return (spread * np.array(noise) + end * (np.arange(size) == END)).astype(np.float32)


def table_step(tokens_BWT, position, tables_B, cache, *, count=None):
    if count is not None:
        jax.debug.callback(count)
    prefix_BW = (cache["prefix"][:, :, 0] * 31 + tokens_BWT[:, :, 0] + 7) % ROWS
    # The position takes part, so that a wrong one changes the logits.
    rows_BW = (prefix_BW + 577 * position) % ROWS
    logits_BWV = jax.vmap(lambda table, rows: table[rows])(tables_B, rows_BW)
    return logits_BWV[:, :, None], {"prefix": prefix_BW[:, :, None]}


def table_row(prefix):
    """The table's row for the token after a prefix, a tuple of ids."""
    state = 0
    for token in (START, *prefix):
        state = (state * 31 + token + 7) % ROWS
    return (state + 577 * len(prefix)) % ROWS


def table_log_probs(table, prefix):
    """Log probabilities of the token after a prefix, in float64."""
    logits = table[table_row(prefix)].astype(np.float64)
    return logits - np.log(np.exp(logits).sum())


def initial_state(tables, width, room):
    cache = {"prefix": jnp.zeros((len(tables), width, 1), jnp.int32)}
    return beam_search.initial_state(cache, len(tables), width, room)


def search(method, step, memory, state, bounds, until_active=0, **options):
    """The loop of `compiled.proceed`; `method` is a Method, or a module with `extend`."""
    extend = functools.partial(method.extend, step, memory, bounds, **options)
    unfinished = functools.partial(beam_search.is_unfinished, until_active)
    return jax.lax.while_loop(unfinished, extend, state)


def bounds(limits, length, least=None, prefixes=None):
    """Bounds from maximum lengths, minimum lengths (0) and prefixes (none)."""
    zeros, empty = [0] * len(limits), [()] * len(limits)
    prefix_BM = tokenizer.padded(prefixes or empty, len(limits), length)
    return Bounds(jnp.array(least or zeros), jnp.array(limits), jnp.array(prefix_BM))


def hypotheses(tokens, scores):
    """One sentence's finished hypotheses, [(ids with the end symbol, score)]; checks padding."""
    found = []
    for row, score in zip(np.asarray(tokens).tolist(), np.asarray(scores).tolist(), strict=True):
        if score == -math.inf:
            continue
        end = row.index(END) + 1
        assert set(row[end:]) <= {PAD}
        found.append((tuple(row[:end]), score))
    return found


LIMITS = [8, 3, 12] * 8
PREFIXES = [(), (4,), (2, 3, 4, 4, 2, 2, 3), (3, 2), (), (2, 4, 3)] * 4
LEAST = [0, 3, 10, 2, 1, 0, 8, 0] * 3


def wide_enough(limits, least, prefixes):
    """The limits, raised to the minimum length and the prefix."""
    return [max(limit, n, len(p)) for limit, n, p in zip(limits, least, prefixes, strict=True)]


def keys(count):
    return jax.random.split(jax.random.key(0), count)
