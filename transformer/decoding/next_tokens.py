"""Which tokens may come next in a hypothesis, and which continuations are the likeliest."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END

Array = jax.Array
BLOCK = 64  # approximate size of the blocks whose maxima are compared
# For indices known to be in bounds: jnp's default mode adds 17 operations of checks to each gather.
take_along_axis = functools.partial(jnp.take_along_axis, mode="promise_in_bounds")


class Bounds(NamedTuple):
    """Constraints on each sentence's output; len(prefix) <= max_length, min_length <= max_length.

    With min_length 2 and max_length 5, the end symbol is forbidden at positions 0 and 1, allowed
    from 2 on, and forced at 5.
    """

    min_length_B: Array  # tokens before the end symbol
    max_length_B: Array  # tokens before the end symbol
    prefix_BM: Array  # forced first tokens, then padding; M: the most room the search can grow to


def constraints(t: Array, bounds: Bounds, never: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns (forbidden_BF, forced_B) at position t: a mask over the first F ids, and an id.

    Forbidden: `never` everywhere, </s> before min_length (probabilities are not renormalised).
    Forced: the prefix, and </s> from max_length on; PAD means that no token is forced.
    """
    # F = 4 for END = 1 and never = (0, 3): the mask is that short, whatever the vocabulary's size.
    tokens = jnp.arange(max((END, *never)) + 1)
    is_never = (tokens[:, None] == jnp.array(never)).any(axis=1)
    is_too_early_B1 = (t < bounds.min_length_B)[:, None]
    forbidden_BF = is_never | ((tokens == END) & is_too_early_B1)
    # The column of position t; behind a prefix it is PAD.
    prefix_B = jax.lax.dynamic_slice_in_dim(bounds.prefix_BM, t, 1, axis=1)[:, 0]
    return forbidden_BF, jnp.where(t < bounds.max_length_B, prefix_B, END)


def likeliest(
    logits_BWV: Array, offset_BW: Array, forbidden_BF: Array, count: int
) -> tuple[Array, Array]:
    """Returns the `count` best continuations of all beams: values and indices into W * V.

    A top-k over all beams and the whole vocabulary, in two stages.

    The value of a continuation is its logit + its beam's offset, or -inf if its token is one of the
    first F and `forbidden` in its sentence. Equals jax.lax.top_k over W * V (but for the indices of
    -inf), which is slow; a maximum is fast. The `count` best values lie in the `count` blocks with
    the largest maxima, so top_k runs over the maxima, then over these blocks alone. With one beam,
    offset 0, count 2 and blocks of 4:

        index    0  1  2  3 |  4  5  6  7 |  8  9 10 11
        logit    1  3  2  0 |  9  8  1  2 |  4  5  0  7     maxima 3, 9, 7: blocks 1 and 2
        top_k of 9 8 1 2 4 5 0 7 gives 0 and 1, which are indices 4 and 5

    All V logits are read once, for the maxima; an array of the V values would take longer to make.
    """
    B, W, V = logits_BWV.shape
    # A block size that divides V, if there is one near BLOCK, avoids a copy: of V = 37,000 the
    # divisor nearest 64 is 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, V))
    N = -(-V // size)  # blocks of a beam
    if V % size:
        padding = ((0, 0), (0, 0), (0, N * size - V))
        logits_BWV = jnp.pad(logits_BWV, padding, constant_values=-jnp.inf)
    blocks_BWNY = logits_BWV.reshape(B, W, N, size)
    # Forbidden tokens are in the first block: only its maximum is computed without them.
    assert forbidden_BF.shape[1] <= size or size == V
    forbidden_BF = forbidden_BF[:, :size]
    F = forbidden_BF.shape[1]
    forbidden_B1Y = jnp.pad(forbidden_BF, ((0, 0), (0, size - F)))[:, None]
    first_BWY = jnp.where(forbidden_B1Y, -jnp.inf, blocks_BWNY[:, :, 0])
    maxima_BWN = blocks_BWNY.max(axis=-1).at[:, :, 0].set(first_BWY.max(axis=-1))
    maxima_BN = (maxima_BWN + offset_BW[:, :, None]).reshape(B, W * N)

    _, best_BX = jax.lax.top_k(maxima_BN, min(count, W * N))
    best_BX1 = jnp.sort(best_BX)[:, :, None]  # in order: of ties the first wins, as in top_k
    beam_BX1, block_BX1 = divided(best_BX1, N)
    token_BXY = block_BX1 * size + jnp.arange(size)
    value_BXY = take_along_axis(blocks_BWNY.reshape(B, W * N, size), best_BX1, axis=1)
    value_BXY += take_along_axis(offset_BW[:, :, None], beam_BX1, axis=1)
    for token in range(F):
        is_forbidden = (token_BXY == token) & forbidden_BF[:, token, None, None]
        value_BXY = jnp.where(is_forbidden, -jnp.inf, value_BXY)
    values, chosen = jax.lax.top_k(value_BXY.reshape(B, -1), count)
    index_BXY = beam_BX1 * V + jnp.minimum(token_BXY, V - 1)  # padding has the index of a token
    return values, take_along_axis(index_BXY.reshape(B, -1), chosen, axis=1)


def divided(index: Array, divisor: int) -> tuple[Array, Array]:
    """Returns quotient and remainder of index >= 0, in fewer operations than // and %.

    These also handle negative numbers, and have 19 operations each where this has 6.
    """
    quotient = jax.lax.div(index, jnp.asarray(divisor, index.dtype))
    return quotient, index - quotient * divisor
