"""Lightweight and dynamic convolutions (Wu et al. 2019, "Pay Less Attention with Lightweight and
Dynamic Convolutions")."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError, check_value
from transformer.families.mixers import shifts
from transformer.models import dense
from transformer.models.cache import Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View

Array = jax.Array


class LightConvolution(nn.Module):
    """A linear map with a gated linear unit, a depthwise convolution, a linear map (figure 2b).

    The convolution's output at t, in a channel of head h, is the sum over its taps j of
    softmax(w_h)_j x_{t+j}. The D / H channels of a head share the weights of `width` taps, which
    are normalised over the taps (section 3). In an encoder t is in the middle; an even width has
    one more position before t than after it. As in the paper's padded convolution, taps beyond the
    ends of a text read zeros, and the other weights are not renormalised. In training, normalised
    weights are dropped at the rate of attention dropout (DropConnect, section 3).
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype
    width: int  # k of the paper; its encoder has 3, 7, 15 and then 31

    def setup(self) -> None:
        self._make_maps()
        shape = self.width, self.options.num_heads
        self.weights = self.param("weights", dense.glorot_uniform, shape)

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        h_BTD = nn.glu(self.inner(x_BTD))
        weights_BTJH = self._normalised_weights(h_BTD, train=train)
        offsets = shifts.offsets(self.width, self.causal)
        if view.segments_BT is not None:
            same_BTJ = jnp.stack([shifts.same_text(view.segments_BT, i) for i in offsets], axis=2)
            weights_BTJH = jnp.where(same_BTJ[..., None], weights_BTJH, 0)
        # P = T + width - 1: tap j of position t is at t + j.
        h_BPD = _pad(h_BTD, -offsets[0], offsets[-1])
        return self.outer(self._sum_taps(weights_BTJH, h_BPD))

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Array:
        """Returns zeros for the convolution's inputs at the width - 1 positions before a text."""
        return jnp.zeros((len(x_BTD), num_beams, self.width - 1, x_BTD.shape[-1]), self.dtype)

    def step(self, x_BQD: Array, queries: Queries, state: Array) -> tuple[Array, Array]:
        h_BWTD = queries.per_beam(nn.glu(self.inner(x_BQD)))
        B, W, T, D = h_BWTD.shape
        h_BWPD = jnp.concatenate([state, h_BWTD], axis=2)
        # Each beam is a row: [B, W, T, D] -> [B * W, T, D] and back.
        weights = self._normalised_weights(h_BWTD.reshape(B * W, T, D), train=False)
        y_BWTD = self._sum_taps(weights, h_BWPD.reshape(B * W, -1, D)).reshape(B, W, T, D)
        return self.outer(queries.in_order(y_BWTD)), h_BWPD[:, :, T:]

    def multiply_adds(self, length: int) -> int:
        D = self.options.d_model
        return D * 2 * D + D * D

    def _make_maps(self) -> None:
        check_value("model.mixer.width", self.width, "at least 1")
        D, H = self.options.d_model, self.options.num_heads
        if D % H:
            raise UserError(
                f"config.model.d_model={D} must be a multiple of config.model.num_heads={H}, whose "
                "channels share the weights of a convolution"
            )
        linear = dense.linear(self.dtype)
        self.inner, self.outer = linear(2 * D), linear(D)
        self.dropout = dense.Dropout(rate=self.options.attention_dropout_rate)

    def _normalised_weights(self, h_BTD: Array, *, train: bool) -> Array:
        """Returns weights_BTJH in float32, here equal at all positions."""
        weights_JH = nn.softmax(self.weights.astype(jnp.float32), axis=0)
        weights_JH = self.dropout(weights_JH, deterministic=not train)
        return jnp.broadcast_to(weights_JH, (*h_BTD.shape[:2], *weights_JH.shape))

    def _sum_taps(self, weights_BTJH: Array, h_BPD: Array) -> Array:
        """Returns the convolution's output [B, T, D]."""
        B, T, _, H = weights_BTJH.shape
        # Channels of a head are adjacent: [B, P, D] -> [B, P, H, D / H] and back.
        return sum_taps(weights_BTJH, h_BPD.reshape(B, h_BPD.shape[1], H, -1)).reshape(B, T, -1)


class DynamicConvolution(LightConvolution):
    """A lightweight convolution whose weights at t are the softmax of a linear map of its input.

    The input is at t only, after the gated linear unit (section 4, figure 2c).
    """

    def setup(self) -> None:
        self._make_maps()
        self.weights = dense.linear(self.dtype, use_bias=False)(self.width * self.options.num_heads)

    def multiply_adds(self, length: int) -> int:
        options = self.options
        return super().multiply_adds(length) + options.d_model * self.width * options.num_heads

    def _normalised_weights(self, h_BTD: Array, *, train: bool) -> Array:
        # [B, T, J * H] -> [B, T, J, H]
        scores_BTJH = self.weights(h_BTD).reshape(*h_BTD.shape[:2], self.width, -1)
        weights_BTJH = nn.softmax(scores_BTJH.astype(jnp.float32), axis=2)
        return self.dropout(weights_BTJH, deterministic=not train)


@jax.custom_vjp
def sum_taps(weights_BTJH: Array, x_BPHC: Array) -> Array:
    """Returns y_BTHC, at t the sum over j of weights[t, j] * x[t + j], where P = T + J - 1.

    It is summed in float32, the dtype of the weights, and has the dtype of x. Its gradient is
    explicit, because on CPUs autodiff's takes 1.5 to 5 times as long for 7 taps, and 4 to 8 times
    for 31, more than the rest of the mixer (d_model 256).
    """
    _, T, J, _ = weights_BTJH.shape
    taps = (weights_BTJH[:, :, j, :, None] * x_BPHC[:, j : j + T] for j in range(J))
    return sum(taps).astype(x_BPHC.dtype)


def _sum_taps_backward(operands: tuple[Array, Array], gradient_BTHC: Array) -> tuple[Array, Array]:
    weights_BTJH, x_BPHC = operands
    _, T, J, _ = weights_BTJH.shape
    # x[p] is tap j of position p - j, so its gradient is a sum of taps in the opposite order. With
    # J = 3, p = 5: weights[3, 2] * gradient[3] + weights[4, 1] * gradient[4] + ...
    turned = [_pad(weights_BTJH[:, :, j], j, J - 1 - j) for j in reversed(range(J))]
    padded = _pad(gradient_BTHC, J - 1, J - 1)
    x_gradient = sum_taps(jnp.stack(turned, axis=2), padded)

    def weights_gradient(j: Array) -> Array:
        tap_BTHC = jax.lax.dynamic_slice_in_dim(x_BPHC, j, T, axis=1)
        product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
        return product("BTHC,BTHC->BTH", gradient_BTHC, tap_BTHC)

    # Tap by tap, because all products at once would be [B, T, J, D].
    weights_gradient_JBTH = jax.lax.map(weights_gradient, jnp.arange(J))
    return jnp.moveaxis(weights_gradient_JBTH, 0, 2), x_gradient


sum_taps.defvjp(lambda *operands: (sum_taps(*operands), operands), _sum_taps_backward)


def _pad(x_BTD: Array, before: int, after: int) -> Array:
    """Pads the positions, axis 1, with zeros before and after."""
    return jnp.pad(x_BTD, [(before, after) if i == 1 else (0, 0) for i in range(x_BTD.ndim)])
