"""An ensemble of models over one vocabulary, which averages their probabilities."""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class Ensemble(nn.Module):
    """Scores and decodes like any model; its params are {"members_0": ..., "members_1": ..., ...}.

    Members must be distinct instances, because equal instances would share params. Memory and cache
    are tuples, one entry per member.
    """

    members: tuple[nn.Module, ...]

    @property
    def dtype(self) -> str:
        """Returns the members' dtype; tasks/saved_model.py has made them equal."""
        return getattr(self.members[0], "dtype", "float32")

    @property
    def position_limit(self) -> float:
        """Returns the smallest of the members' limits."""
        return min(getattr(model, "position_limit", math.inf) for model in self.members)

    def __call__(self, *inputs: Array, train: bool, **named: Array) -> Array:
        """Returns log probabilities [B, T, V]."""
        return _log_mean_probs([model(*inputs, train=train, **named) for model in self.members])

    def encode(self, *inputs: Array, train: bool) -> tuple:
        return tuple(model.encode(*inputs, train=train) for model in self.members)

    def prepare(
        self, memory: tuple, memory_mask_BS: Array, room: int, num_beams: int
    ) -> tuple[tuple, tuple]:
        members = zip(self.members, memory, strict=True)
        prepared = [model.prepare(x, memory_mask_BS, room, num_beams) for model, x in members]
        return tuple(zip(*prepared, strict=True))  # the memories, the caches

    def step(
        self, tokens_BWT: Array, position: Array, memory: tuple, cache: tuple
    ) -> tuple[Array, tuple]:
        members = zip(self.members, memory, cache, strict=True)
        stepped = [model.step(tokens_BWT, position, *its_own) for model, *its_own in members]
        logits, caches = zip(*stepped, strict=True)
        return _log_mean_probs(logits), caches


def _log_mean_probs(logits: Sequence[Array]) -> Array:
    """Returns the log of the mean of the members' probabilities, [..., V]."""
    log_probs = jnp.stack([jax.nn.log_softmax(x.astype(jnp.float32)) for x in logits])
    # log(sum of probabilities / count), in log space so that small probabilities do not underflow.
    return jax.nn.logsumexp(log_probs, axis=0) - math.log(len(logits))
