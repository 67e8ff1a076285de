"""Recurrent cells: the plain network, the GRU and the LSTM, with or without layer normalisation.

    rnn     h = tanh(a)                                   Elman 1990
    relu    h = max(a, 0)
    gru     h = (1 - z) n + z h, n = tanh(x_n + r h_n)    Cho et al. 2014
    lstm    c = f c + i g, h = o tanh(c)                  Hochreiter and Schmidhuber 1997, with the
                                                          forget gate of Gers et al. 2000

where a, and the logits of the gates i, f, o, r, z, are sums of linear maps of the input x and of h.
Not as in Cho et al.: the reset gate r comes after the linear map of h, so that each side is one
matrix product.

Without a bias, an LSTM's forget gate starts at sigmoid(0) = 0.5 and forgets a position after a few
more. A bias of 1 opens the gate, and LSTMs are then as good as GRUs or better (Jozefowicz et al.
2015).
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array
GATES = {"rnn": 1, "relu": 1, "gru": 3, "lstm": 4}  # vectors that a cell computes from x and h

# Scans a module over the positions, axis 1 of its inputs and outputs, with the same params.
over_positions = functools.partial(
    nn.scan, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
)


class Cell(nn.RNNCellBase):
    """One position of a recurrence; the carry is h [B, C], in an LSTM (c, h).

    `normalised` adds layer normalisation (Ba, Kiros and Hinton 2016, section 3.1 and supplement) to
    the sum in plain cells, and otherwise to the maps of x and of h, and to c in an LSTM's output.
    Not as in the paper: the maps of a GRU's gates are normalised together, like an LSTM's.
    """

    kind: str
    features: int  # C
    forget_bias: float  # added to the logits of an LSTM's forget gate
    normalised: bool = False

    num_feature_axes = 1  # flax's RNN asks for it

    @nn.compact
    def __call__(self, carry: tuple[Array, Array] | Array, x_BD: Array) -> tuple:
        """Returns the next carry, and h."""
        F = GATES[self.kind] * self.features
        norm = lambda name, x: nn.LayerNorm(name=name)(x) if self.normalised else x
        h_BC = jax.tree.leaves(carry)[-1]
        x_BF = nn.Dense(F, name="input")(x_BD)
        # A GRU needs a bias of h, because r multiplies it; elsewhere the bias of x is enough.
        h_BF = nn.Dense(F, self.kind == "gru", kernel_init=orthogonal_gates, name="state")(h_BC)
        if GATES[self.kind] == 1:
            activation = {"rnn": jnp.tanh, "relu": nn.relu}[self.kind]
            h_BC = activation(norm("norm", x_BF + h_BF))
            return h_BC, h_BC
        x_BF, h_BF = norm("input_norm", x_BF), norm("state_norm", h_BF)
        if self.kind == "gru":
            h_BC = gru_state(x_BF, h_BF, h_BC)
            return h_BC, h_BC
        c_BC, output_BC = lstm_gates(x_BF + h_BF, carry[0], self.forget_bias)
        h_BC = output_BC * jnp.tanh(norm("memory_norm", c_BC))
        return (c_BC, h_BC), h_BC

    def initialize_carry(self, rng: Array, input_shape: tuple[int, ...]) -> tuple | Array:
        """Returns zeros."""
        zeros = jnp.zeros((*input_shape[:-1], self.features))
        return (zeros, zeros) if self.kind == "lstm" else zeros


def gru_state(x_BF: Array, h_BF: Array, h_BC: Array) -> Array:
    """Returns the next h from the maps of x and of h, [B, 3 C]: r, z, n concatenated."""
    x_r, x_z, x_n = jnp.split(x_BF, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(h_BF, 3, axis=-1)
    z = nn.sigmoid(x_z + h_z)
    return (1 - z) * jnp.tanh(x_n + nn.sigmoid(x_r + h_r) * h_n) + z * h_BC


def lstm_gates(gates_BF: Array, c_BC: Array, forget_bias: float) -> tuple[Array, Array]:
    """Returns the next c and the output gate o from logits [B, 4 C]: i, f, o, g concatenated."""
    i, f, o, g = jnp.split(gates_BF, 4, axis=-1)
    c_BC = nn.sigmoid(f + forget_bias) * c_BC + nn.sigmoid(i) * jnp.tanh(g)
    return c_BC, nn.sigmoid(o)


def orthogonal_gates(key: Array, shape: tuple[int, int], dtype: jnp.dtype) -> Array:
    """Draws an orthogonal matrix [C, C] for each gate, concatenated."""
    # The square blocks of an orthogonal [C, 4 C] would not be orthogonal.
    C, F = shape
    init = nn.initializers.orthogonal()
    return jnp.concatenate([init(k, (C, C), dtype) for k in jax.random.split(key, F // C)], axis=1)
