"""An LSTM with intra-attention (LSTMN; Cheng et al. 2016, section 3.1), as a classifier.

An LSTM's position reads the previous state; here it reads a weighted sum of all previous states.
`Step` is one position, here and in lstm_language_model.py.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.families.recurrent import cells
from transformer.models import dense, fields
from transformer.models.attention import attend
from transformer.models.cache import lengthened

Array = jax.Array
RULES = {
    **dict.fromkeys(("d_model", "state_size", "attention_size", "d_ff"), "at least 1"),
    "forget_bias": "at least 0",
    "dropout_rate": "at least 0 and below 1",
}


class IntraAttention(nn.Module):
    """Maps a text to logits of its class; two texts in a row are read as one."""

    vocab_size: int
    num_classes: int
    d_model: int  # of the embeddings
    state_size: int  # C, of the hidden states and of the memories
    forget_bias: float  # added to the forget gate's logit; 1 opens the gate initially
    attention_size: int  # A, of the sum inside the tanh of the scores
    d_ff: int  # of the classifier's hidden layer
    dropout_rate: float  # of the embeddings and of the classifier's input

    takes_packed_rows = False

    @nn.compact
    def __call__(self, ids: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns logits [B, V]; ids and segments (0 on padding) are int [B, S]."""
        fields.check_rules(self, RULES)
        dropout = nn.Dropout(self.dropout_rate, deterministic=not train)
        x_BSD = dropout(dense.embed(self.vocab_size, self.d_model, name="embedding")(ids))
        scan = cells.over_positions(Step)
        steps = scan(self.state_size, self.attention_size, self.forget_bias, name="recurrent")
        B, S = ids.shape
        # The tapes have room for all positions, because a scan needs constant shapes.
        tape = lambda size: jnp.zeros((B, S, size))
        tapes = Tapes(tape(self.attention_size), tape(self.state_size), tape(self.state_size))
        initial_carry = jnp.int32(0), jnp.zeros((B, self.state_size)), tapes
        _, (h_BSC, weights_BTS) = steps(initial_carry, x_BSD)
        self.sow("intermediates", "attention", weights_BTS[:, None])  # H = 1
        # The mean over real positions; zeros for a row of padding, where 0 / 0 would be NaN.
        real_BS = segments > 0
        count_B1 = jnp.maximum(real_BS.sum(axis=1, keepdims=True), 1)
        pooled_BC = jnp.einsum("BSC,BS->BC", h_BSC, real_BS.astype(h_BSC.dtype)) / count_B1
        x_BF = nn.relu(nn.Dense(self.d_ff, name="hidden")(dropout(pooled_BC)))
        return nn.Dense(self.num_classes, name="head")(dropout(x_BF))

    @staticmethod
    def attention_weights(sown: dict) -> dict[str, Array]:
        """Returns {'encoder': weights [L = 1, B, H = 1, T, S]}; t sees earlier keys only."""
        return {"encoder": sown["attention"][0][None]}

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step: three times those of the forward pass."""
        C, A = self.state_size, self.attention_size
        recurrent = 4 * C * (self.d_model + C) + A * (self.d_model + 2 * C)
        # Scores of all positions, sums of two tapes, and the mean over the positions.
        attention = length * (A + 2 * C) + C
        classifier = self.d_ff * (C + self.num_classes)
        return 3 * 2 * rows * (length * (recurrent + attention) + classifier)


class Tapes(NamedTuple):
    """The outputs of `Step` at each position: arrays [B, S, ...], in decoding [B, W, S, ...]."""

    keys: Array
    states: Array
    memories: Array

    def grow(self, times: int) -> "Tapes":
        """Pads a decoder's tapes to `times` as many positions."""
        return Tapes(*(lengthened(tape, 2, times) for tape in self))


class Step(nn.Module):
    """Computes the state at one position from the states at all earlier positions."""

    state_size: int
    attention_size: int
    forget_bias: float

    @nn.compact
    def __call__(self, carry: tuple, x_BD: Array) -> tuple[tuple, tuple[Array, Array]]:
        """Returns the next carry, and (h_BC, weights_BS).

        The carry is the position t, the attended h~ of the previous position, and the tapes: keys
        W h [B, S, A], hidden states h [B, S, C] and memories c [B, S, C] of earlier positions.
        """
        t, attended_BC, tapes = carry
        keys_BSA, h_BSC, c_BSC = tapes
        project = lambda name: nn.Dense(self.attention_size, use_bias=False, name=name)
        # Equations 4 to 6: a = v . tanh(W_h h + W_x x + W_h~ h~), softmax, sums of both tapes.
        query_BA = project("input")(x_BD) + project("attended")(attended_BC)
        v_A = self.param("v", dense.normal(self.attention_size**-0.5), query_BA.shape[-1:])
        scores_BHTS = (jnp.tanh(keys_BSA + query_BA[:, None]) @ v_A)[:, None, None]
        # Strictly causal: t = 2 sees positions 0 and 1. From t on the tapes are zero.
        before_BTS = (jnp.arange(keys_BSA.shape[1]) < t)[None, None]
        # One softmax reads both tapes: concatenate [h; c], and split the sum.
        tapes_BHSC = jnp.concatenate([h_BSC, c_BSC], axis=-1)[:, None]
        context_BTHC, weights_BHTS = attend(scores_BHTS, before_BTS, tapes_BHSC, lambda x: x)
        attended_BC, memory_BC = jnp.split(context_BTHC[:, 0, 0], 2, axis=-1)
        # Equations 7 to 9: an LSTM cell whose state is (h~, c~).
        gates = nn.Dense(4 * self.state_size, name="gates")
        gates_BF = gates(jnp.concatenate([attended_BC, x_BD], axis=-1))
        c_BC, output_BC = cells.lstm_gates(gates_BF, memory_BC, self.forget_bias)
        h_BC = output_BC * jnp.tanh(c_BC)
        # Write position t last, because step t reads positions 0 to t - 1.
        write = lambda tape, x: jax.lax.dynamic_update_slice_in_dim(tape, x[:, None], t, axis=1)
        tapes = jax.tree.map(write, tapes, Tapes(project("key")(h_BC), h_BC, c_BC))
        return (t + 1, attended_BC, tapes), (h_BC, weights_BHTS[:, 0, 0])
