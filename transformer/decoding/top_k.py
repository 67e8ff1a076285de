"""The largest of very many values."""

import jax
import jax.numpy as jnp

Array = jax.Array
BLOCK = 64  # approximate size of the blocks whose maxima are compared


def likeliest(log_probs_BWV: Array, count: int) -> tuple[Array, Array]:
    """Returns the `count` best continuations of all beams: values and indices into W * V.

    Equals jax.lax.top_k over W * V, which is slow; a maximum is fast. The `count` best values lie
    in the `count` blocks with the largest maxima, so top_k runs over the maxima, then over these
    blocks alone. With count 2, blocks of 4:

        index    0  1  2  3 |  4  5  6  7 |  8  9 10 11
        value    1  3  2  0 |  9  8  1  2 |  4  5  0  7     maxima 3, 9, 7: blocks 1 and 2
        top_k of 9 8 1 2 4 5 0 7 gives 0 and 1, which are indices 4 and 5
    """
    B, W, V = log_probs_BWV.shape
    flat = log_probs_BWV.reshape(B, W * V)
    # A block size that divides W * V, if there is one near BLOCK, avoids a copy: of
    # W * V = 148,000 the divisor nearest 64 is 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if W * V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, W * V))
    covered = W * V // size * size
    blocks = flat[:, :covered].reshape(B, -1, size)
    _, best = jax.lax.top_k(blocks.max(axis=-1), min(count, blocks.shape[1]))
    best = jnp.sort(best, axis=1)[:, :, None]  # in order: of ties the first wins, as in top_k
    values = jnp.take_along_axis(blocks, best, axis=1).reshape(B, -1)
    indices = (best * size + jnp.arange(size)).reshape(B, -1)
    if covered < W * V:  # the remainder after the last block always takes part
        rest = jnp.broadcast_to(jnp.arange(covered, W * V), (B, W * V - covered))
        values = jnp.concatenate([values, flat[:, covered:]], axis=1)
        indices = jnp.concatenate([indices, rest], axis=1)
    values, chosen = jax.lax.top_k(values, count)
    return values, jnp.take_along_axis(indices, chosen, axis=1)
