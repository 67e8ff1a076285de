"""A gated average of the positions so far (Zhang, Xiong and Su 2018, "Accelerating Neural
Transformer via an Average Attention Network")."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import dense
from transformer.models.cache import Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View


class Average(nn.Module):
    """y_t = i_t * x_t + f_t * g_t, where g_t is the mean of x_1 to x_t (equations 1, 4 and 5).

    The gates i and f are sigmoids of a linear map of [x_t; g_t]. In an encoder the mean is over the
    whole text. Not as in the paper: its feed-forward network on top of the mean is left out,
    because the layer's own follows.
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype

    def setup(self) -> None:
        self.inner = dense.linear(self.dtype)(2 * self.options.d_model)

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        seen_BTS = view.mask_BTS.astype(jnp.float32)
        # Padding sees nothing, so divide 0 by 1 instead of 0.
        count_BT1 = jnp.maximum(seen_BTS.sum(axis=-1, keepdims=True), 1)
        means_BTD = jnp.einsum("BTS,BSD->BTD", seen_BTS, x_BTD) / count_BT1
        # All queries may share one mask.
        return self._gated(x_BTD, jnp.broadcast_to(means_BTD, x_BTD.shape))

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Array:
        return jnp.zeros((len(x_BTD), num_beams, x_BTD.shape[-1]), jnp.float32)

    def step(self, x_BQD: Array, queries: Queries, state: Array) -> tuple[Array, Array]:
        x_BWTD = queries.per_beam(x_BQD)
        sums_BWTD = state[:, :, None] + jnp.cumsum(x_BWTD.astype(jnp.float32), axis=2)
        # Token t of this step is at position + t, so its mean has one more element.
        count_T1 = queries.position + 1 + jnp.arange(x_BWTD.shape[2])[:, None]
        means_BQD = queries.in_order(sums_BWTD / count_T1)
        return self._gated(x_BQD, means_BQD), sums_BWTD[:, :, -1]

    def multiply_adds(self, length: int) -> int:
        D = self.options.d_model
        return length * D + 2 * D * 2 * D

    def _gated(self, x_BTD: Array, means_BTD: Array) -> Array:
        means_BTD = means_BTD.astype(x_BTD.dtype)
        gates = nn.sigmoid(self.inner(jnp.concatenate([x_BTD, means_BTD], axis=-1)))
        input_BTD, forget_BTD = jnp.split(gates, 2, axis=-1)
        return input_BTD * x_BTD + forget_BTD * means_BTD
