"""Decomposable attention (Parikh et al. 2016): aligns, compares and classifies two texts.

"A Decomposable Attention Model for Natural Language Inference" compares two texts only by attention
and feed-forward networks, a year before the Transformer. Without `intra_attention` it ignores the
order of words.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import dense, fields
from transformer.models.attention import attend
from transformer.models.masks import same_segment

RULES = {"d_model": "at least 1", "d_ff": "at least 1", "max_distance": "at least 0"}
RULES["dropout_rate"] = "at least 0 and below 1"


class Decomposable(nn.Module):
    """Maps two texts to logits of their class; a row concatenates both.

    Each text starts with the start symbol, the paper's NULL, for words without a counterpart. Not
    as in the paper: embeddings are learned, where the paper's are a linear map of GloVe's.
    """

    vocab_size: int
    num_classes: int
    d_model: int  # of the embeddings
    d_ff: int  # of both layers of each feed-forward network
    intra_attention: bool  # whether words first attend to their own text (section 3.4)
    max_distance: int  # clips the distances of intra-attention (paper: 10)
    dropout_rate: float  # of the inputs of each layer

    takes_packed_rows = False
    num_texts = 2

    @nn.compact
    def __call__(self, ids: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns logits [B, V]; segments are 1 and 2 in the two texts, 0 on padding, int [B, S].

        Positions count from 0 in each text.
        """
        fields.check_rules(self, RULES)
        network = lambda name: FeedForward(self.d_ff, self.dropout_rate, not train, name=name)
        x_BSD = dense.embed(self.vocab_size, self.d_model, name="embedding")(ids)
        if self.intra_attention:
            # Equations 7 and 8: attention within a text, with a bias per distance.
            bias_R = self.param("distance_bias", dense.normal(0.02), (2 * self.max_distance + 1,))
            distance_BTS = positions[:, None, :] - positions[:, :, None]
            # With max_distance 2, a word 0, 1, 5 positions later has row 2, 3, 4.
            rows_BTS = jnp.clip(distance_BTS, -self.max_distance, self.max_distance)
            bias_BTS = bias_R[rows_BTS + self.max_distance]
            own_BTS = same_segment(segments, segments)
            context_BSD, _ = soft_align(network("intra")(x_BSD), bias_BTS, own_BTS, x_BSD)
            x_BSD = jnp.concatenate([x_BSD, context_BSD], axis=-1)
        # Attend, equations 1 and 2, beta and alpha at once: text 1 attends to 2, and 2 to 1.
        # Padding would attend to text 3, which no row has.
        other_BTS = same_segment(3 - segments, segments)
        aligned_BSD, weights_BHTS = soft_align(network("attend")(x_BSD), 0.0, other_BTS, x_BSD)
        self.sow("intermediates", "attention", weights_BHTS)
        # Compare, equation 3: each word with its alignment.
        v_BSF = network("compare")(jnp.concatenate([x_BSD, aligned_BSD], axis=-1))
        # Aggregate, equations 4 and 5: classify [v1; v2], the sums over each text.
        total = lambda i: jnp.einsum("BSF,BS->BF", v_BSF, (segments == i).astype(v_BSF.dtype))
        x_BF = network("aggregate")(jnp.concatenate([total(1), total(2)], axis=-1))
        return nn.Dense(self.num_classes, name="head")(x_BF)

    @staticmethod
    def attention_weights(sown: dict) -> dict[str, Array]:
        """Returns {'cross': weights [L = 1, B, H = 1, S, S]}, from each text to the other."""
        return {"cross": sown["attention"][0][None]}

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step: three times those of the forward pass."""
        F = self.d_ff
        # An attention has a network, scores of all positions, and a sum of their vectors.
        attention = lambda D: F * (D + F) + length * (F + D)
        intra = attention(self.d_model) if self.intra_attention else 0
        D = 2 * self.d_model if self.intra_attention else self.d_model
        per_position = intra + attention(D) + F * (2 * D + F) + 2 * F  # 2 F to sum over the texts
        return 3 * 2 * rows * (length * per_position + F * (2 * F + F + self.num_classes))


def soft_align(
    f_BSF: Array, bias_BTS: Array | float, mask_BTS: Array, x_BSD: Array
) -> tuple[Array, Array]:
    """Returns (context_BTD, weights_BHTS), with H = 1.

    The context of t is a sum of the x that the mask allows, weighted by the softmax of
    f_t . f_s + bias_ts, without scaling.
    """
    scores_BTS = jnp.einsum("BTF,BSF->BTS", f_BSF, f_BSF) + bias_BTS
    context_BTHC, weights_BHTS = attend(scores_BTS[:, None], mask_BTS, x_BSD[:, None], lambda x: x)
    return context_BTHC[:, :, 0], weights_BHTS


class FeedForward(nn.Module):
    """Applies two layers with ReLU, the paper's F, G and H."""

    d_ff: int
    dropout_rate: float
    deterministic: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Returns [..., F]."""
        for name in ("inner", "outer"):
            x = nn.Dropout(self.dropout_rate, deterministic=self.deterministic)(x)
            x = nn.relu(nn.Dense(self.d_ff, name=name)(x))
        return x
