"""Rules against repetition: of n-grams, and of single tokens."""

import dataclasses

import jax
import jax.numpy as jnp

from transformer.errors import check_value

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class NoRepeatNgram:
    """No hypothesis has the same `size` tokens twice (Paulus, Xiong and Socher 2018)."""

    size: int

    def __post_init__(self) -> None:
        check_value("decode.rules: size of no_repeat_ngram", self.size, "at least 1")

    def __call__(self, log_probs_BWV: Array, tokens_BWT: Array, t: Array) -> Array:
        """Forbids each token that once followed the last `size` - 1.

        With size 3, after 5 6 7 5 6 the next token is not 7.
        """
        T = tokens_BWT.shape[2]
        # Column i is token i; is_same is whether the size - 1 tokens before it are the last ones.
        is_same_BWT = (jnp.arange(T) >= self.size - 1) & (jnp.arange(T) < t)
        for n in range(1, min(self.size, T + 1)):
            last_BW1 = jax.lax.dynamic_slice_in_dim(tokens_BWT, jnp.maximum(t - n, 0), 1, axis=2)
            is_same_BWT &= jnp.roll(tokens_BWT, n, axis=2) == last_BW1
        return _at(log_probs_BWV, tokens_BWT).min(jnp.where(is_same_BWT, -jnp.inf, jnp.inf))


@dataclasses.dataclass(frozen=True)
class Repetition:
    """log P of the tokens that a hypothesis has is multiplied by `penalty` (Keskar et al. 2019).

    Above 1 it discourages them, as in Hugging Face's transformers.
    """

    penalty: float

    def __post_init__(self) -> None:
        check_value("decode.rules: penalty of repetition", self.penalty, "above 0")

    def __call__(self, log_probs_BWV: Array, tokens_BWT: Array, t: Array) -> Array:
        """Multiplies log P of the tokens before t."""
        is_written = jnp.broadcast_to(jnp.arange(tokens_BWT.shape[2]) < t, tokens_BWT.shape)
        is_old_BWV = _at(jnp.zeros(log_probs_BWV.shape, bool), tokens_BWT).max(is_written)
        return jnp.where(is_old_BWV, self.penalty * log_probs_BWV, log_probs_BWV)


def _at(array_BWV: Array, tokens_BWT: Array) -> object:
    """Returns the places of tokens in an array of all tokens, for an update such as `min`."""
    B, W, _ = array_BWV.shape
    return array_BWV.at[jnp.arange(B)[:, None, None], jnp.arange(W)[:, None], tokens_BWT]
