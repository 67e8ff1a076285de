"""A recurrent layer, as in table 1 of the paper: the LSTM (Hochreiter and Schmidhuber 1997, with
the forget gate of Gers et al. 2000)."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import check_value
from transformer.families.mixers import chunked_scan
from transformer.models import dense, kernels
from transformer.models.cache import Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View

Array = jax.Array


class Lstm(nn.Module):
    """Reads a text position by position, in an encoder in both directions.

    Gates i, f, o and candidate g are linear maps of x_t and h_{t-1}; c_t = f c_{t-1} + i g, and the
    output is h_t = o tanh(c_t). In an encoder each direction has half of d_model.
    `forget_bias` is added to f before the sigmoid (1 in Jozefowicz et al. 2015).
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype
    forget_bias: float = 1.0

    def setup(self) -> None:
        D = self.options.d_model
        if not self.causal:
            check_value("model.d_model", D, "even and at least 2")
        # E is the size of a direction's state.
        E = D if self.causal else D // 2
        names = ("forward",) if self.causal else ("forward", "backward")
        # Not called 'inner', which is sharded, because a state's four gates belong on one device.
        self.input = dense.linear(self.dtype)(4 * E * len(names))
        self.recurrent = [self.param(f"{x}_recurrent", _orthogonal, (E, 4 * E)) for x in names]

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        x_BTF = self.input(x_BTD)
        carry = self._zeros(len(x_BTD))
        if self.causal:
            return self._read(0, x_BTF, view.segments_BT, carry)[0]
        forward_BTF, backward_BTF = jnp.split(x_BTF, 2, axis=-1)
        y_BTE, _ = self._read(0, forward_BTF, view.segments_BT, carry)
        arrays = chunked_scan.reverse((backward_BTF, view.segments_BT))
        backward_BTE, _ = self._read(1, *arrays, carry)
        return jnp.concatenate([y_BTE, chunked_scan.reverse(backward_BTE)], axis=-1)

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> tuple[Array, Array]:
        return self._zeros(len(x_BTD), num_beams)

    def step(self, x_BQD: Array, queries: Queries, state: tuple) -> tuple[Array, tuple]:
        read = lambda x_BTF, carry: self._read(0, x_BTF, None, carry)
        return chunked_scan.step_beams(read, self.input(x_BQD), queries, state)

    def multiply_adds(self, length: int) -> int:
        D = self.options.d_model
        return 4 * D * D + 4 * D * D // (1 if self.causal else 2)

    def _zeros(self, *shape: int) -> tuple[Array, Array]:
        """Returns the state (c, h) before a text."""
        zeros = jnp.zeros((*shape, len(self.recurrent[0])), jnp.float32)
        return zeros, zeros

    def _read(
        self, direction: int, x_BTF: Array, segments_BT: Array | None, carry: tuple[Array, Array]
    ) -> tuple[Array, tuple[Array, Array]]:
        """Returns the outputs [B, T, E] and the last (c, h); x are the gates' inputs, F = 4 E."""
        starts_BT = chunked_scan.text_starts(x_BTF, segments_BT)
        # lax.scan loops over the first axis: [B, T, F] -> [T, B, F].
        arrays = self.recurrent[direction].astype(x_BTF.dtype), x_BTF.swapaxes(0, 1), starts_BT.T
        y_TBE, carry = read_positions(self.forget_bias, *arrays, carry)
        return y_TBE.swapaxes(0, 1), carry


def scan_positions(
    forget_bias: float,
    recurrent_EF: Array,
    x_TBF: Array,
    starts_TB: Array,
    carry: tuple[Array, Array],
) -> tuple[Array, tuple[Array, Array]]:
    """Reads position by position; returns h [T, B, E], of x's dtype, and the last (c, h)."""
    product = kernels.chosen().dot_general

    def read(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple:
        x_BF, starts_B = now
        c_BE, h_BE = (jnp.where(starts_B[:, None], 0, state) for state in carry)
        h_BF = product(h_BE.astype(x_BF.dtype), recurrent_EF, (((1,), (0,)), ((), ())))
        i, f, o, g = jnp.split((x_BF + h_BF).astype(jnp.float32), 4, axis=-1)
        c_BE = nn.sigmoid(f + forget_bias) * c_BE + nn.sigmoid(i) * jnp.tanh(g)
        h_BE = nn.sigmoid(o) * jnp.tanh(c_BE)
        return (c_BE, h_BE), h_BE.astype(x_BF.dtype)

    carry, y_TBE = jax.lax.scan(read, carry, (x_TBF, starts_TB))
    return y_TBE, carry


def _forward(
    forget_bias: float, recurrent_EF: Array, x_TBF: Array, starts_TB: Array, carry: tuple
) -> tuple:
    # Autodiff sees the recurrent matrix as a constant.
    read = lambda x, carry: scan_positions(forget_bias, recurrent_EF, x, starts_TB, carry)
    (y_TBE, last), gradient_of = jax.vjp(read, x_TBF, carry)
    before_TBE = jnp.concatenate([carry[1][None].astype(y_TBE.dtype), y_TBE[:-1]])
    before_TBE = jnp.where(starts_TB[:, :, None], 0, before_TBE)
    return (y_TBE, last), (gradient_of, before_TBE)


def _backward(forget_bias: float, kept: tuple, gradient: tuple) -> tuple:
    gradient_of, before_TBE = kept
    x_TBF, carry = gradient_of(gradient)
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    recurrent_EF = product("TBE,TBF->EF", before_TBE, x_TBF).astype(x_TBF.dtype)
    return recurrent_EF, x_TBF, None, carry


# The backward pass computes the gradient of the recurrent matrix as one product over all positions,
# of the previous h and the gradient of the gates. Autodiff would sum it in the loop, a quarter
# slower on CPUs, and with rows on several devices an all-reduce per position.
read_positions = jax.custom_vjp(scan_positions, nondiff_argnums=(0,))
read_positions.defvjp(_forward, _backward)


def _orthogonal(key: Array, shape: tuple[int, int]) -> Array:
    """Draws an orthogonal matrix [E, E] for each of the four gates, concatenated [E, 4 E]."""
    # The square blocks of an orthogonal [E, 4 E] would not be orthogonal.
    init = functools.partial(nn.initializers.orthogonal(), shape=(shape[0], shape[0]))
    return jnp.concatenate([init(k) for k in jax.random.split(key, 4)], axis=1)
