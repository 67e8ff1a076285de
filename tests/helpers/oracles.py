"""What the library is compared with: slow or plain forms of the same thing."""

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, PAD, START


def greedy(step, memory, cache, limits_B, length):
    """Decodes the likeliest token at each step: tokens_BT, the end symbol, then padding.

    `limits_B` is the maximum number of tokens before the end symbol, at most `length` - 1.
    """
    B = len(limits_B)

    def is_running(state):
        t, _, ended_B, _ = state
        return (t < length) & ~ended_B.all()

    def extend(state):
        t, tokens_BT, ended_B, cache = state
        last_B = jnp.where(t > 0, tokens_BT[:, t - 1], START)
        logits, cache = step(last_B[:, None, None], t, memory, cache)
        token_B = jnp.where(t < limits_B, logits[:, 0, 0].argmax(axis=-1), END)
        token_B = jnp.where(ended_B, PAD, token_B)
        return t + 1, tokens_BT.at[:, t].set(token_B), ended_B | (token_B == END), cache

    start = (0, jnp.full((B, length), PAD, jnp.int32), jnp.zeros(B, bool), cache)
    return jax.lax.while_loop(is_running, extend, start)[1]
