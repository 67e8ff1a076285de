"""A recurrent layer (Hochreiter and Schmidhuber 1997): the LSTM, as table 1 of the paper has it."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import check_values
from transformer.families.mixers import chunked_scan
from transformer.models import dense
from transformer.models.attention import View
from transformer.models.cache import PerBeam, Queries
from transformer.models.layer_options import LayerOptions

Array = jax.Array


class Lstm(nn.Module):
    """Reads a text position by position, in an encoder both ways.

    Gates i, f, o and candidate g are linear maps of x_t and h_{t-1}; c_t = f c_{t-1} + i g and
    h_t = o tanh(c_t), which is the output. In an encoder each direction has half of d_model.
    `forget_bias` is added to f before the sigmoid (1 in Jozefowicz et al. 2015).
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype
    forget_bias: float

    def setup(self) -> None:
        D = self.options.d_model
        if not self.causal:
            check_values("model", {"d_model": D}, {"d_model": "even and at least 2"})
        # E is the size of a direction's state.
        E = D if self.causal else D // 2
        names = ("forward",) if self.causal else ("forward", "backward")
        self.inner = dense.linear(self.dtype)(4 * E * len(names))
        self.recurrent = [self.param(f"{x}_recurrent", _orthogonal, (E, 4 * E)) for x in names]

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        del train
        x_BTF, carry = self.inner(x_BTD), self._zeros(len(x_BTD))
        if self.causal:
            return self._read(0, x_BTF, view.segments_BT, carry)[0]
        forward_BTF, backward_BTF = jnp.split(x_BTF, 2, axis=-1)
        y_BTE, _ = self._read(0, forward_BTF, view.segments_BT, carry)
        arrays = chunked_scan.reverse((backward_BTF, view.segments_BT))
        backward_BTE, _ = self._read(1, *arrays, carry)
        return jnp.concatenate([y_BTE, chunked_scan.reverse(backward_BTE)], axis=-1)

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> PerBeam:
        del room
        return PerBeam(self._zeros(len(x_BTD), num_beams))

    def step(self, x_BQD: Array, queries: Queries, state: PerBeam) -> tuple[Array, PerBeam]:
        read = lambda x_BTF, carry: self._read(0, x_BTF, None, carry)
        return chunked_scan.step_beams(read, self.inner(x_BQD), queries, state)

    def multiply_adds(self, length: int) -> int:
        del length
        D, directions = self.options.d_model, 1 if self.causal else 2
        return 4 * D * D + 4 * D * D // directions

    def _zeros(self, *shape: int) -> tuple[Array, Array]:
        """Returns the state (c, h) before a text."""
        zeros = jnp.zeros((*shape, len(self.recurrent[0])), jnp.float32)
        return zeros, zeros

    def _read(
        self,
        direction: int,
        x_BTF: Array,
        segments_BT: Array | None,
        carry: tuple[Array, Array],
    ) -> tuple[Array, tuple[Array, Array]]:
        """Returns the outputs [B, T, E] and the last (c, h); x are the gates' inputs, F = 4 E."""
        starts_BT = chunked_scan.text_starts(x_BTF, segments_BT)
        recurrent_EF = self.recurrent[direction].astype(x_BTF.dtype)

        def read(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple:
            x_BF, starts_B = now
            c_BE, h_BE = (jnp.where(starts_B[:, None], 0, state) for state in carry)
            h_BF = dense.dot_general(
                h_BE.astype(x_BF.dtype), recurrent_EF, (((1,), (0,)), ((), ()))
            )
            i, f, o, g = jnp.split((x_BF + h_BF).astype(jnp.float32), 4, axis=-1)
            c_BE = nn.sigmoid(f + self.forget_bias) * c_BE + nn.sigmoid(i) * jnp.tanh(g)
            h_BE = nn.sigmoid(o) * jnp.tanh(c_BE)
            return (c_BE, h_BE), h_BE.astype(x_BF.dtype)

        # The scan is over the first axis: [B, T, F] -> [T, B, F].
        carry, y_TBE = jax.lax.scan(read, carry, (x_BTF.swapaxes(0, 1), starts_BT.T))
        return y_TBE.swapaxes(0, 1), carry


def _orthogonal(key: Array, shape: tuple[int, int]) -> Array:
    """Draws an orthogonal matrix [E, E] for each of the four gates, side by side [E, 4 E]."""
    # Square blocks of one orthogonal [E, 4 E] would not be orthogonal.
    square, init = (shape[0], shape[0]), nn.initializers.orthogonal()
    return jnp.concatenate([init(k, square) for k in jax.random.split(key, 4)], axis=1)
