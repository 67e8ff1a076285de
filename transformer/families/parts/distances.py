"""Relative positions as keys and values (Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with
Relative Position Representations")."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError, check_value
from transformer.models import boxes, dense
from transformer.models.layer_options import head_sizes
from transformer.models.masks import View
from transformer.models.positions import Positions

Array = jax.Array


class Shaw(Positions):
    """Scores each distance as a key, and adds its value (equations 3 and 5).

    Distances are clipped at `max_distance` (16 in the paper's base). Each head has a table, as in
    the paper's base model (4.1); in its section 3.3 heads share one.
    """

    max_distance: int = 16

    keys = property(lambda self: 2 * self.max_distance + 1)

    def setup(self) -> None:
        check_value("model.positions.max_distance", self.max_distance, "at least 1")
        [score] = boxes.parse("score", self.options.score)
        if not score.code.linear:
            raise UserError(
                f"config.model.score={self.options.score!r} does not go with positions='shaw': "
                "the score of a key plus a distance must be the sum of their two scores"
            )

    @nn.compact
    def tables(self, heads: int) -> tuple[Array, Array]:
        """Returns the keys [H, K, R] and the values [H, R, C] of R distances."""
        (K, C), R = head_sizes(self.options), self.keys
        keys_HKR = self.param("distance_keys", dense.normal(K**-0.5), (heads, K, R))
        return keys_HKR, self.param("distance_values", dense.normal(C**-0.5), (heads, R, C))

    def scores(self, scores_BHTS: Array, q_BTHK: Array, score: nn.Module, view: View) -> Array:
        keys_HKR = self.tables(q_BTHK.shape[2])[0].astype(q_BTHK.dtype)
        # Broadcast, because XLA on CPUs has no bfloat16 product without k_BHKS's batch dimension.
        keys_BHKR = jnp.broadcast_to(keys_HKR, (len(q_BTHK), *keys_HKR.shape))
        return scores_BHTS + take_distances(score(q_BTHK, keys_BHKR), self._rows(view))

    def context(self, context_BTHC: Array, weights_BHTS: Array, view: View) -> Array:
        values_HRC = self.tables(weights_BHTS.shape[1])[1].astype(weights_BHTS.dtype)
        # Sum in float32, because many keys may be at the farthest distance.
        weights_BHTS = weights_BHTS.astype(jnp.float32)
        weights_BHTR = sum_distances(weights_BHTS, self._rows(view), self.keys)
        weights_BHTR = weights_BHTR.astype(values_HRC.dtype)
        return context_BTHC + jnp.einsum("BHTR,HRC->BTHC", weights_BHTR, values_HRC)

    def _rows(self, view: View) -> Array:
        return distance_rows(view.query_positions_BT, view.key_positions_BS, self.max_distance)


def distance_rows(query_positions_BT: Array, key_positions_BS: Array, max_distance: int) -> Array:
    """Returns the row of a table of distances for each query and key (Shaw et al. 2018, 3.2).

    The table has R = 2 * max_distance + 1 rows, for distances clipped to -max_distance to
    max_distance. With max_distance 2, a key 0, 1, 5 positions later has row 2, 3, 4.
    """
    distance_BTS = key_positions_BS[:, None, :] - query_positions_BT[:, :, None]
    return jnp.clip(distance_BTS, -max_distance, max_distance) + max_distance


def take_distances(x_BHTR: Array, rows_BTS: Array) -> Array:
    """Looks up x at each key's distance from the query: x_BHTS[..., s] = x_BHTR[..., rows[s]].

    Neither this nor `sum_distances` makes an array [B, T, S, K] (Shaw et al. 2018, 3.3). On CPUs
    attention takes half the time of products with one-hot distances.
    """
    return jnp.take_along_axis(x_BHTR, rows_BTS[:, None], axis=-1)


def sum_distances(x_BHTS: Array, rows_BTS: Array, num_rows: int) -> Array:
    """Returns x_BHTR: x_BHTS summed over the keys at each distance from their query.

    It is the transpose of `take_distances`, with the same `rows_BTS`.
    """
    x_BHTR = jax.ShapeDtypeStruct((*x_BHTS.shape[:3], num_rows), x_BHTS.dtype)
    return jax.linear_transpose(lambda x: take_distances(x, rows_BTS), x_BHTR)(x_BHTS)[0]
