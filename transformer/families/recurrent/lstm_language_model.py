"""Language models of one recurrent layer: an LSTM, and the LSTMN, which attends to its own past.

The LSTM reads the last state before a token, the LSTMN all states and memories (Cheng, Dong and
Lapata 2016, section 3.1). Both predict the next token from the new state.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.families.recurrent import cells
from transformer.families.recurrent.intra_attention import Step, Tapes
from transformer.models import dense, fields

Array = jax.Array
RULES = {
    **dict.fromkeys(("d_model", "state_size"), "at least 1"),
    **dict.fromkeys(("attention_size", "forget_bias"), "at least 0"),
    "dropout_rate": "at least 0 and below 1",
}


class LstmLanguageModel(nn.Module):
    """Maps the tokens so far to the logits of the next token. A row holds one text."""

    vocab_size: int
    d_model: int  # of the embeddings
    state_size: int  # C, of the hidden states and of the memories
    forget_bias: float  # added to the forget gate's logit; 1 opens the gate initially
    attention_size: int  # A, of the sum inside the tanh of the scores; 0 for an LSTM
    dropout_rate: float  # of the embeddings and of the states

    takes_packed_rows = False

    def setup(self) -> None:
        fields.check_rules(self, RULES)
        self.embedding = dense.embed(self.vocab_size, self.d_model)
        if self.attention_size:
            steps = cells.over_positions(Step)
            self.recurrent = steps(self.state_size, self.attention_size, self.forget_bias)
        else:
            steps = cells.over_positions(cells.Cell)
            self.recurrent = steps("lstm", self.state_size, self.forget_bias)
        self.head = nn.Dense(self.vocab_size)
        self.dropout = nn.Dropout(self.dropout_rate)

    def __call__(self, tokens: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns logits [B, T, V]; the inputs are those of `LanguageModel.hidden`."""
        _, cache = self.prepare((), segments, tokens.shape[1], 1)
        cache = jax.tree.map(lambda x: x[:, 0], cache)  # W = 1
        x_BTD = self.dropout(self.embedding(tokens), deterministic=not train)
        _, h_BTC, weights_BTS = self._read(cache, x_BTD, 0)
        if weights_BTS is not None:
            self.sow("intermediates", "attention", weights_BTS[:, None])  # H = 1
        return self.head(self.dropout(h_BTC, deterministic=not train))

    def encode(self, *_: Array, train: bool) -> tuple[()]:
        """Returns the memory, which is empty, because a language model has no source."""
        return ()

    def prepare(
        self, memory: tuple[()], memory_mask: Array, room: int, num_beams: int
    ) -> tuple[tuple[()], tuple]:
        """Returns the memory, and the state before the first token; reads only B of `memory_mask`.

        The state is an LSTM's (c, h), or h~ and the tapes of `Step` with room for `room` tokens.
        """
        zeros = lambda *shape: jnp.zeros((len(memory_mask), num_beams, *shape))
        A, C = self.attention_size, self.state_size
        tapes = Tapes(zeros(room, A), zeros(room, C), zeros(room, C))
        return memory, (zeros(C), tapes if A else zeros(C))

    def step(self, tokens: Array, position: Array, memory: tuple[()], cache: tuple) -> tuple:
        """Returns logits [B, W, T, V] after each of the tokens [B, W, T], and the next state."""
        B, W, T = tokens.shape
        # Beams are rows: [B, W, ...] -> [B * W, ...], and back.
        cache = jax.tree.map(lambda x: x.reshape(B * W, *x.shape[2:]), cache)
        x_BTD = self.embedding(tokens.reshape(B * W, T))
        cache, h_BTC, _ = self._read(cache, x_BTD, position)
        per_beam = lambda x: x.reshape(B, W, *x.shape[1:])
        return per_beam(self.head(h_BTC)), jax.tree.map(per_beam, cache)

    def _read(self, cache: tuple, x_BTD: Array, position: Array | int) -> tuple:
        """Returns the next state, the hidden states [B, T, C], and an LSTMN's weights [B, T, S]."""
        if not self.attention_size:
            return *self.recurrent(cache, x_BTD), None
        (_, *cache), (h_BTC, weights_BTS) = self.recurrent((jnp.int32(position), *cache), x_BTD)
        return tuple(cache), h_BTC, weights_BTS

    @staticmethod
    def attention_weights(sown: dict) -> dict[str, Array]:
        """Returns {'decoder': weights [L = 1, B, H = 1, T, S]}, S before T; {} for an LSTM."""
        return {"decoder": sown["attention"][0][None]} if "attention" in sown else {}

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step: three times those of the forward pass."""
        A, C, D = self.attention_size, self.state_size, self.d_model
        position = 4 * C * (D + C) + C * self.vocab_size
        if A:  # projections to A, scores of all positions, and sums of two tapes
            position += A * (D + 2 * C) + length * (A + 2 * C)
        return 3 * 2 * rows * length * position
