"""Constraints on each sentence's output: its length, its prefix, forbidden tokens."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END

Array = jax.Array


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
