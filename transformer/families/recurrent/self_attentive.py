"""The structured self-attentive sentence embedding (Lin et al. 2017), a classifier with attention.

Several hops of attention read the states of a bidirectional LSTM. A penalty makes hops read
different parts of the text. The queries are learned constants; the paper calls this self-attention.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.families.recurrent import intra_attention
from transformer.families.recurrent.cells import Cell
from transformer.models import dense, fields
from transformer.models.attention import attend

RULES = intra_attention.RULES | {"num_hops": "at least 1", "penalty": "at least 0"}


class SelfAttentive(nn.Module):
    """Maps a text to logits of its class; two texts in a row are read as one."""

    vocab_size: int
    num_classes: int
    d_model: int  # of the embeddings
    state_size: int  # u, of each direction's states
    forget_bias: float  # added to the forget gate's logit; 1 opens the gate initially
    attention_size: int  # d_a, of the tanh layer inside the scores
    num_hops: int  # r
    d_ff: int  # of the classifier's hidden layer
    penalty: float  # coefficient of |A A^T - I|^2 in the loss; the paper's is 1
    dropout_rate: float  # of the embeddings and of the classifier's input

    takes_packed_rows = False

    @nn.compact
    def __call__(self, ids: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns logits [B, V]; ids and segments (0 on padding) are int [B, S]."""
        fields.check_rules(self, RULES)
        dropout = nn.Dropout(self.dropout_rate, deterministic=not train)
        x_BSD = dropout(dense.embed(self.vocab_size, self.d_model, name="embedding")(ids))
        direction = lambda: nn.RNN(Cell("lstm", self.state_size, self.forget_bias))
        recurrent = nn.Bidirectional(direction(), direction(), name="recurrent")
        real_BS = segments > 0
        h_BSC = recurrent(x_BSD, seq_lengths=real_BS.sum(axis=1))

        # A = softmax(W2 tanh(W1 H^T)), equation 6; its rows are the T = r hops of one head.
        inner_BSF = jnp.tanh(nn.Dense(self.attention_size, use_bias=False, name="inner")(h_BSC))
        scores_BST = nn.Dense(self.num_hops, use_bias=False, name="hops")(inner_BSF)
        context_BTHC, weights_BHTS = attend(
            scores_BST.swapaxes(1, 2)[:, None], real_BS[:, None], h_BSC[:, None], lambda x: x
        )
        self.sow("intermediates", "attention", weights_BHTS)
        self.sow("losses", "penalty", self.penalty * redundancy(weights_BHTS[:, 0]))
        # M = A H, equation 7, as a vector: the contexts [a b] and [c d] become [a b c d].
        m_BC = context_BTHC.reshape(len(ids), -1)
        x_BF = nn.relu(nn.Dense(self.d_ff, name="hidden")(dropout(m_BC)))
        return nn.Dense(self.num_classes, name="head")(dropout(x_BF))

    @staticmethod
    def attention_weights(sown: dict) -> dict[str, Array]:
        """Returns {'hops': weights [L = 1, B, H = 1, T, S]} with T hops."""
        return {"hops": sown["attention"][0][None]}

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step: three times those of the forward pass."""
        states, hops = 2 * self.state_size, self.num_hops
        recurrent = 4 * states * (self.d_model + self.state_size)
        attention = (self.attention_size + hops) * (states + hops)  # and `redundancy`
        classifier = self.d_ff * (hops * states + self.num_classes)
        return 3 * 2 * rows * (length * (recurrent + attention) + classifier)


def redundancy(weights_BTS: Array) -> Array:
    """Returns |A A^T - I|^2 (Frobenius; equation 8) of each A [T, S], [B].

    It is 0 if each hop has all its weight on one position, and no two hops on the same.
    """
    products_BTU = jnp.einsum("BTS,BUS->BTU", weights_BTS, weights_BTS)  # T and U: hops
    return ((products_BTU - jnp.eye(weights_BTS.shape[1])) ** 2).sum(axis=(1, 2))
