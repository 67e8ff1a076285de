"""Several models over one vocabulary as one model, whose probabilities are the mean of theirs."""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Ensemble(nn.Module):
    """Scores and decodes like any model; its params are {"members_0": ..., "members_1": ..., ...}.

    Each member is an instance of its own: one given twice would share its params. Memory and cache
    are tuples of the members'.
    """

    members: tuple[nn.Module, ...]

    @property
    def dtype(self) -> str:
        return getattr(self.members[0], "dtype", "float32")

    @property
    def position_limit(self) -> float:
        """How many positions a sequence may have: as many as each member allows."""
        return min(getattr(model, "position_limit", math.inf) for model in self.members)

    def __call__(self, *inputs: Array, train: bool, **named: Array) -> Array:
        """Log probabilities [B, T, V]."""
        return _mean([model(*inputs, train=train, **named) for model in self.members])

    def encode(self, *inputs: Array, train: bool) -> tuple:
        return tuple(model.encode(*inputs, train=train) for model in self.members)

    def prepare(
        self, memory: tuple, memory_mask_BS: Array, length: int, num_beams: int
    ) -> tuple[tuple, tuple]:
        prepared = [
            model.prepare(its_memory, memory_mask_BS, length, num_beams)
            for model, its_memory in zip(self.members, memory, strict=True)
        ]
        memories, caches = zip(*prepared, strict=True)
        return memories, caches

    def step(
        self, tokens_BWT: Array, position: Array, memory: tuple, cache: tuple
    ) -> tuple[Array, tuple]:
        stepped = [
            model.step(tokens_BWT, position, its_memory, its_cache)
            for model, its_memory, its_cache in zip(self.members, memory, cache, strict=True)
        ]
        logits, caches = zip(*stepped, strict=True)
        return _mean(logits), caches

    @nn.nowrap
    def reorder(self, cache: tuple, parents_BW: Array) -> tuple:
        pairs = zip(self.members, cache, strict=True)
        return tuple(model.reorder(its_cache, parents_BW) for model, its_cache in pairs)

    @nn.nowrap
    def grow(self, cache: tuple, length: int) -> tuple:
        pairs = zip(self.members, cache, strict=True)
        return tuple(model.grow(its_cache, length) for model, its_cache in pairs)


def _mean(logits: Sequence[Array]) -> Array:
    """The logarithm of the mean of the probabilities that the logits are of, [..., V]."""
    log_probs = jnp.stack([jax.nn.log_softmax(x.astype(jnp.float32)) for x in logits])
    return jax.nn.logsumexp(log_probs, axis=0) - math.log(len(logits))
