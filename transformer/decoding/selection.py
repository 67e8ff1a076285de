"""The likeliest continuations of beams, by fewer operations than `jax.lax.top_k` of all."""

import functools

import jax
import jax.numpy as jnp

Array = jax.Array

BLOCK = 64  # approximate size of the blocks whose maxima `likeliest` compares
# Indices are in bounds; jnp's default mode would add 17 operations per gather to check it.
take_along_axis = functools.partial(jnp.take_along_axis, mode="promise_in_bounds")


def likeliest(
    logits_BWV: Array, offset_BW: Array, forbidden_BF: Array, count: int
) -> tuple[Array, Array]:
    """Returns the `count` best continuations of all beams: values and indices into W * V.

    A continuation's value is its logit + its beam's offset, or -inf if its token is `forbidden`.
    The result is jax.lax.top_k over W * V, but for the indices of -inf. As top_k is slow and a
    maximum is fast, it runs in two stages: over the maxima of blocks, then over the `count` blocks
    with the largest maxima. These contain the `count` best values. With one beam, offset 0, count 2
    and blocks of 4:

        index    0  1  2  3 |  4  5  6  7 |  8  9 10 11
        logit    1  3  2  0 |  9  8  1  2 |  4  5  0  7     maxima 3, 9, 7: blocks 1 and 2
        top_k of 9 8 1 2 4 5 0 7 gives 0 and 1, which are indices 4 and 5

    The V logits are read once, for the maxima. Offsets are added to the maxima and to the chosen
    blocks only, which saves an array of V values.
    """
    B, W, V = logits_BWV.shape
    # A block size that divides V, if one is near BLOCK, avoids a copy: for V = 37,000, the divisor
    # nearest to 64 is 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, V))
    N = -(-V // size)  # blocks of a beam
    if V % size:
        padding = ((0, 0), (0, 0), (0, N * size - V))
        logits_BWV = jnp.pad(logits_BWV, padding, constant_values=-jnp.inf)
    blocks_BWNY = logits_BWV.reshape(B, W, N, size)
    # Forbidden tokens are in the first block, so only its maximum must exclude them.
    forbidden_BF = forbidden_BF[:, :size]
    F = forbidden_BF.shape[1]
    forbidden_B1Y = jnp.pad(forbidden_BF, ((0, 0), (0, size - F)))[:, None]
    first_BWY = jnp.where(forbidden_B1Y, -jnp.inf, blocks_BWNY[:, :, 0])
    maxima_BWN = blocks_BWNY.max(axis=-1).at[:, :, 0].set(first_BWY.max(axis=-1))
    maxima_BN = (maxima_BWN + offset_BW[:, :, None]).reshape(B, W * N)

    _, best_BX = jax.lax.top_k(maxima_BN, min(count, W * N))
    best_BX1 = jnp.sort(best_BX)[:, :, None]  # sorted, so that ties go to the first, as in top_k
    beam_BX1, block_BX1 = divided(best_BX1, N)
    token_BXY = block_BX1 * size + jnp.arange(size)
    value_BXY = take_along_axis(blocks_BWNY.reshape(B, W * N, size), best_BX1, axis=1)
    value_BXY += take_along_axis(offset_BW[:, :, None], beam_BX1, axis=1)
    for token in range(F):
        is_forbidden = (token_BXY == token) & forbidden_BF[:, token, None, None]
        value_BXY = jnp.where(is_forbidden, -jnp.inf, value_BXY)
    values, chosen = jax.lax.top_k(value_BXY.reshape(B, -1), count)
    index_BXY = beam_BX1 * V + jnp.minimum(token_BXY, V - 1)  # in bounds for padding, too
    return values, take_along_axis(index_BXY.reshape(B, -1), chosen, axis=1)


def divided(index: Array, divisor: int) -> tuple[Array, Array]:
    """Returns quotient and remainder of index >= 0.

    It takes 6 operations; // and % take 19 each, because they handle negative numbers.
    """
    quotient = jax.lax.div(index, jnp.asarray(divisor, index.dtype))
    return quotient, index - quotient * divisor
