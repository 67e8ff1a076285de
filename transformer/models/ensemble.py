"""Several models over one vocabulary as one model, whose probabilities are the mean of theirs."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Ensemble(nn.Module):
    """Trained, decoded and scored like any model; its parameters are {"members_0": ..., ...}.

    Members are instances of their own: one given twice would share its parameters.
    """

    members: tuple[nn.Module, ...]

    @property
    def dtype(self) -> str:
        return self.members[0].dtype

    @property
    def position_limit(self) -> float:
        """How many positions a sequence may have in all of the models."""
        return min(getattr(model, "position_limit", math.inf) for model in self.members)

    def __call__(self, *inputs: Array, train: bool, **named: Array) -> Array:
        """Log probabilities [B, T, V]."""
        return _mean([model(*inputs, train=train, **named) for model in self.members])

    def encode(self, *inputs: Array, train: bool) -> tuple:
        return tuple(model.encode(*inputs, train=train) for model in self.members)

    def prepare(
        self, memory: tuple, memory_mask_BS: Array, length: int, num_beams: int
    ) -> tuple[tuple, tuple]:
        found = (
            model.prepare(one, memory_mask_BS, length, num_beams)
            for model, one in zip(self.members, memory, strict=True)
        )
        return tuple(zip(*found, strict=True))

    def step(
        self, tokens_BWT: Array, position: Array, memory: tuple, cache: tuple
    ) -> tuple[Array, tuple]:
        found = (
            model.step(tokens_BWT, position, *of_model)
            for model, *of_model in zip(self.members, memory, cache, strict=True)
        )
        logits, caches = zip(*found, strict=True)
        return _mean(logits), caches

    @nn.nowrap
    def reorder(self, cache: tuple, parents_BW: Array) -> tuple:
        pairs = zip(self.members, cache, strict=True)
        return tuple(model.reorder(one, parents_BW) for model, one in pairs)

    @nn.nowrap
    def grow(self, cache: tuple, length: int) -> tuple:
        pairs = zip(self.members, cache, strict=True)
        return tuple(model.grow(one, length) for model, one in pairs)


def _mean(logits: list[Array]) -> Array:
    """The logarithm of the mean of the models' probabilities."""
    log_probs = jnp.stack([jax.nn.log_softmax(x.astype(jnp.float32)) for x in logits])
    return jax.nn.logsumexp(log_probs, axis=0) - math.log(len(logits))
