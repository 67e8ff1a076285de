"""Relative positions as a bias of the scores: ALiBi's, and T5's."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import check_value
from transformer.models import dense
from transformer.models.masks import View
from transformer.models.positions import Positions

T5_BUCKETS = 32  # of distances, as in T5


class Alibi(Positions):
    """A bias that falls with the distance (Press et al. 2022, "Train Short, Test Long")."""

    def scores(self, scores_BHTS: Array, q_BTHK: Array, score: nn.Module, view: View) -> Array:
        return scores_BHTS + alibi(view.query_positions_BT, view.key_positions_BS, q_BTHK.shape[2])


class T5(Positions):
    """A learned bias for each bucket of distances (Raffel et al. 2020, section 2.1).

    T5's scores are not scaled, so its model also needs config.model.score=dot. Not as in T5: each
    layer has its own table, where T5's layers share the first layer's.
    """

    causal: bool = False
    max_distance: int = 128  # all farther keys are in the last bucket

    def setup(self) -> None:
        check_value("model.positions.max_distance", self.max_distance, f"above {T5_BUCKETS}")

    @nn.compact
    def scores(self, scores_BHTS: Array, q_BTHK: Array, score: nn.Module, view: View) -> Array:
        bias_HR = self.param("distance_bias", dense.normal(0.02), (q_BTHK.shape[2], T5_BUCKETS))
        positions = view.query_positions_BT, view.key_positions_BS
        rows_BTS = t5_buckets(*positions, self.max_distance, self.causal)
        # [H, R] -> [H, B, T, S] -> [B, H, T, S].
        return scores_BHTS + jnp.take(bias_HR, rows_BTS, axis=1).swapaxes(0, 1)


def alibi(query_positions_BT: Array, key_positions_BS: Array, num_heads: int) -> Array:
    """Returns the bias of scores_BHTS, -slope * |distance| (ALiBi, Press et al. 2022, section 3).

    The slopes of H heads are 2^(-8/H), 2^(-16/H), ..., 2^-8. Not as in the authors' code, any H has
    these slopes, not only a power of two. Not as in the paper, later keys have a bias, too.
    """
    slopes_H = 2.0 ** (-8 * jnp.arange(1, num_heads + 1) / num_heads)
    distance_BTS = jnp.abs(key_positions_BS[:, None, :] - query_positions_BT[:, :, None])
    return -slopes_H[:, None, None] * distance_BTS[:, None]


def t5_buckets(
    query_positions_BT: Array, key_positions_BS: Array, max_distance: int, causal: bool
) -> Array:
    """Returns the bucket [B, T, S] of each key's distance (T5, Raffel et al. 2020, section 2.1).

    Half of the buckets are for single distances 0, 1, 2, ... The other half widen up to
    `max_distance`, and the last has all farther keys. If causal, all 32 are for earlier keys.
    Otherwise 0 to 15 are for the query's own and earlier positions, 16 to 31 for later positions.
    """
    distance_BTS = query_positions_BT[:, :, None] - key_positions_BS[:, None, :]
    first, size = 0, T5_BUCKETS
    if not causal:
        size //= 2
        first = jnp.where(distance_BTS < 0, size, 0)
        distance_BTS = jnp.abs(distance_BTS)
    distance_BTS = jnp.maximum(distance_BTS, 0)
    exact = size // 2
    # Bucket exact + i begins at exact * (max_distance / exact)^(i / (size - exact)).
    # The share is 0 at `exact`, and 1 at `max_distance`.
    share_BTS = jnp.log(jnp.maximum(distance_BTS, exact) / exact) / math.log(max_distance / exact)
    wide_BTS = exact + (share_BTS * (size - exact)).astype(jnp.int32)
    bucket_BTS = jnp.where(distance_BTS < exact, distance_BTS, jnp.minimum(wide_BTS, size - 1))
    return first + bucket_BTS
