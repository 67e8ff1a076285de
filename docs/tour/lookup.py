"""Attention is a dictionary with a soft lookup, which becomes exact as the scores grow."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.models import boxes
from transformer.models.attention import ScaledDot, SelfAttention, attend

WORDS = ("나는", "사과를", "좋아해")
# Of each word: what it asks for and what it is found by, (subject, object); and what it says.
QUERIES = [[1, 0], [0, 0], [1, 2]]
KEYS = [[1, 0], [0, 1], [0, 0]]
VALUES = [[2, 0], [0, 4], [1, 1]]
FACTORS = (1, 4, 16)
OURS = 2 / 3  # where the query of 좋아해 is, on the way from one that asks for 나는 to 사과를
# {as printed: config.model.mixer}
PROJECTIONS = {
    "q = k = x": "shared(projections='identity')",
    "q = k = W x": "shared(projections='qk')",
    "q = W_Q x, k = W_K x": "attention",
}
SENTENCES, LENGTH, VOCABULARY = 100, 10, 1000


def lookup(q_TK: jax.Array, factor: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns attention's scores, times the factor, its weights and its sums of VALUES."""
    k_KS, v_SC = jnp.array(KEYS, jnp.float32).T, jnp.array(VALUES, jnp.float32)
    scores_BHTS = factor * ScaledDot().apply({}, q_TK[None, :, None], k_KS[None, None])
    every_BTS = jnp.ones((1, 1, len(WORDS)), bool)
    sums_BTHC, weights_BHTS = attend(scores_BHTS, every_BTS, v_SC[None, None], dropout=lambda x: x)
    return scores_BHTS[0, 0], weights_BHTS[0, 0], sums_BTHC[0, :, 0]


def between(share: float, factor: float) -> jax.Array:
    """Returns the second number found by a query on its way from 나는 (0) to 사과를 (1)."""
    query_K = 3 * jnp.array([1 - share, share])
    return lookup(query_K[None], factor)[2][0, 1]


def embedded() -> float:
    """Returns how far one-hot rows times an embedding's matrix are from its lookup, at most."""
    embedding, ids_T = nn.Embed(VOCABULARY, 32), jnp.arange(0, VOCABULARY, 7)
    params = embedding.init(jax.random.key(0), ids_T)
    product_TD = jax.nn.one_hot(ids_T, VOCABULARY) @ params["params"]["embedding"]
    return float(jnp.abs(product_TD - embedding.apply(params, ids_T)).max())


def self_scores(attention: SelfAttention, x_BTD: jax.Array) -> jax.Array:
    """Returns how each word of a sentence scores each other, before the softmax."""
    keys_BHKS, _ = attention.project(x_BTD)
    return attention.score_function(attention.project_queries(x_BTD, None), keys_BHKS)


def projected(mixer: str) -> tuple[float, float, float]:
    """Returns what random vectors of equal length look at, with projections before any training.

    The share of words that score themselves highest, the mean weight on themselves, and the mean
    of |score(a, b) - score(b, a)|.
    """
    options = tiny.transformer(VOCABULARY, num_heads=1).options
    given = {"options": options, "causal": False, "dtype": jnp.float32}
    attention = boxes.part("mixer", mixer, **given)()
    x_BTD = jax.random.normal(jax.random.key(0), (SENTENCES, LENGTH, options.d_model))
    x_BTD *= options.d_model**0.5 / jnp.linalg.norm(x_BTD, axis=-1, keepdims=True)
    params = attention.init(jax.random.key(1), x_BTD, method=self_scores)
    scores_BTS = attention.apply(params, x_BTD, method=self_scores)[:, 0]
    highest = (scores_BTS.argmax(axis=-1) == jnp.arange(LENGTH)).mean()
    weights_BT = jnp.diagonal(jax.nn.softmax(scores_BTS, axis=-1), axis1=1, axis2=2)
    asymmetry = jnp.abs(scores_BTS - scores_BTS.swapaxes(1, 2)).mean()
    return float(highest), float(weights_BT.mean()), float(asymmetry)


def show() -> picture.Chart:
    """Returns the weights of one lookup, and what is found by one query after the other."""
    numbers = lambda row: " ".join(f"{x:6.3f}" for x in row)
    q_TK, cells, found = jnp.array(QUERIES, jnp.float32), [], []
    print(f"{'':10}{'scores':26}{'weights':26}sum")
    for word, *rows in zip(WORDS, *lookup(q_TK, 1), strict=True):
        print(f"{word:8}" + "     ".join(map(numbers, rows)))
    print(f"\n{WORDS[-1]}, scores times\n{'':8}{'weights':26}{'sum':18}slope")
    for factor in FACTORS:
        _, (*_, weights_S), (*_, sum_C) = lookup(q_TK, factor)
        slope = jax.grad(between)(OURS, factor)
        print(f"{factor:4}    {numbers(weights_S)}     {numbers(sum_C)}   {slope:7.4f}")
        times, shares = {"scores": f"× {factor}"}, np.linspace(0, 1, 61)
        weights = zip(WORDS, weights_S.tolist(), strict=True)
        cells += [{**times, "word": word, "weight": weight} for word, weight in weights]
        numbers_S = jax.vmap(between, in_axes=(0, None))(shares, factor)
        curve = zip(shares.tolist(), numbers_S.tolist(), strict=True)
        found += [{**times, "query": share, "found": number} for share, number in curve]
    print(f"\none-hot rows times the matrix, and nn.Embed: apart by {embedded()}")
    for name, mixer in PROJECTIONS.items():
        highest, weight, asymmetry = projected(mixer)
        itself = f"highest score for itself {highest:4.0%}, weight {weight:.2f}"
        print(f"{name:22}{itself}; |score(a, b) - score(b, a)| {asymmetry:.2f}")
    size = {"width": 220, "height": 200, "title": f"Weights of {WORDS[-1]}"}
    weights = picture.heatmap(cells, "word", "scores", "weight", **size)
    way = {"field": "query", "type": "quantitative", "title": "query: 나는 at 0, 사과를 at 1"}
    line = {
        "mark": "line",
        "encoding": {
            "x": way,
            "y": {"field": "found", "type": "quantitative", "title": None},
            "color": {"field": "scores", "type": "nominal", "sort": None},
        },
    }
    dashed = {"type": "rule", "strokeDash": [4, 4]}
    ours = {"mark": dashed, "encoding": {"x": {"datum": OURS}}}
    title = "Second number of the sum (사과를 has 4)"
    size = {"width": 280, "height": 200, "title": title}
    return {"hconcat": [weights, {**size, "data": {"values": found}, "layer": [line, ours]}]}
