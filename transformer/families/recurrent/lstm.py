"""The LSTM cell (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

Without a bias the forget gate begins at sigmoid(0) = 0.5 and loses what was read a few positions
ago. A bias of 1 opens it, and LSTMs then do as well as GRUs or better (Jozefowicz et al. 2015);
Flax's cells have no such bias.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


def next_state(gates_BF: Array, c_BC: Array, forget_bias: float) -> tuple[Array, Array]:
    """Returns the next cell state and hidden state, (c, h), from the gates' logits [B, 4 C]."""
    # With C = 2 the columns of the gates are i i f f o o n n; n is the new content, a tanh.
    i, f, o, new = jnp.split(gates_BF, 4, axis=-1)
    c_BC = nn.sigmoid(f + forget_bias) * c_BC + nn.sigmoid(i) * jnp.tanh(new)
    return c_BC, nn.sigmoid(o) * jnp.tanh(c_BC)


class LSTMCell(nn.LSTMCell, kw_only=True):
    """Adds a forget bias to Flax's LSTMCell, and computes its four gates in one matrix product."""

    forget_bias: float

    @nn.compact
    def __call__(self, carry: tuple[Array, Array], x_BD: Array) -> tuple[tuple, Array]:
        """Returns the next carry (c, h), and h [B, C]."""
        c_BC, h_BC = carry
        gates = 4 * self.features
        gates_BF = nn.Dense(gates, name="input", use_bias=False)(x_BD)
        gates_BF += nn.Dense(gates, name="state", kernel_init=orthogonal_gates)(h_BC)
        c_BC, h_BC = next_state(gates_BF, c_BC, self.forget_bias)
        return (c_BC, h_BC), h_BC


def orthogonal_gates(key: Array, shape: tuple[int, int], dtype: jnp.dtype) -> Array:
    """Draws an orthogonal matrix [C, C] for each of the four gates, side by side [C, 4 C]."""
    # Each gate is drawn by itself, as Flax's cells do: a square block of one orthogonal [C, 4 C]
    # would not be orthogonal.
    square, init = (shape[0], shape[0]), nn.initializers.orthogonal()
    return jnp.concatenate([init(k, square, dtype) for k in jax.random.split(key, 4)], axis=1)
