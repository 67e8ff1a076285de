"""Encoder-only Transformers (Devlin et al. 2019, BERT): masked language model, classifier of texts.

Both have the same params except for `head`, so a classifier can start from a pre-trained model.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import boxes, dense, fields, stack
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import self_view


class TextEncoder(nn.Module):
    """Maps each token to a vector that depends on all tokens of its text.

    The fields are those of `Transformer`. Not as in BERT, but as in `Transformer`: embeddings are
    multiplied by sqrt(d_model), and their sum with the positions is not normalised.
    """

    vocab_size: int
    options: LayerOptions
    max_positions: int
    dtype: str

    attention_weights = staticmethod(stack.stacked_weights)

    def setup(self) -> None:
        stack.check_options(self)
        D = self.options.d_model
        self.embedding = nn.Embed(self.vocab_size, D, embedding_init=dense.normal(D**-0.5))
        self.add_positions = stack.input_positions(self)
        self.encoder = stack.Stack(self.options, causal=False, dtype=self.dtype)
        self.dropout = dense.Dropout(rate=self.options.dropout_rate)

    def encode(self, ids: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns a vector for each token, [B, S, D].

        Inputs are int [B, S]. Segments number the texts of a packed row from 1; 0 is padding. A
        token attends to its own text only. Positions count from 0 in each text.
        """
        # Embeddings are initially N(0, 1 / d_model), so that the product has variance 1.
        x_BSD = self.add_positions(self.embedding(ids) * self.options.d_model**0.5, positions)
        x_BSD = self.dropout(x_BSD.astype(self.dtype), deterministic=not train)
        # A token sees its own text on both sides, and no padding.
        view = self_view(positions, segments, causal=False)
        return self.encoder(x_BSD, view, train=train)

    position_limit = property(stack.position_limit)
    takes_packed_rows = property(stack.take_packed_rows)

    def encoder_flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step without the head: three forward passes."""
        encoder = stack.multiply_adds(self.options, length, causal=False)
        return 3 * 2 * rows * length * encoder


class MaskedLanguageModel(TextEncoder):
    """Predicts masked tokens from the tokens on both sides of them."""

    mask_share: float  # of the tokens of a text; read by `flops` only

    def setup(self) -> None:
        super().setup()
        self.head = MaskedHead(self.options, jnp.dtype(self.dtype))

    def __call__(self, *inputs: Array, train: bool, **named_inputs: Array) -> Array:
        """Returns logits [B, T, V] of the T masked tokens; the inputs are those of `hidden`."""
        return self.logits(self.hidden(*inputs, **named_inputs, train=train))

    def hidden(
        self, ids: Array, masked: Array, positions: Array, segments: Array, *, train: bool
    ) -> Array:
        """Returns the vectors [B, T, D] at the columns `masked` [B, T].

        The other inputs are those of `encode`.
        """
        x_BSD = self.encode(ids, positions, segments, train=train)
        # x[b, masked[b, t]], so that logits are computed for masked tokens only.
        return jnp.take_along_axis(x_BSD, masked[:, :, None], axis=1)

    def logits(self, x_BTD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
        """Returns the logits [B, T, V], with the embeddings as the output matrix."""
        return self.head(x_BTD, self.embedding.embedding, dtype)

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step."""
        head = self.options.d_model * (self.options.d_model + self.vocab_size)
        masked = int(self.mask_share * length) + 1  # columns of the input `masked`
        return self.encoder_flops(rows, length) + 3 * 2 * rows * masked * head


class MaskedHead(nn.Module):
    """Transforms a vector and compares it with each embedding (BERT's "cls/predictions")."""

    options: LayerOptions
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, matrix_VD: Array, dtype: jnp.dtype) -> Array:
        """Returns logits [B, T, V] in `dtype`; `matrix_VD` are the embeddings."""
        x_BTD = nn.Dense(x_BTD.shape[-1], dtype=self.dtype, name="transform")(x_BTD)
        norm = boxes.part("norm", self.options.norm, dtype=self.dtype)
        x_BTD = norm(name="norm")(dense.gelu(x_BTD))
        bias_V = self.param("bias", nn.initializers.zeros, matrix_VD.shape[:1])
        return dense.logits(x_BTD, matrix_VD, dtype) + bias_V.astype(dtype)


class TextClassifier(TextEncoder):
    """Maps a text, or two, to logits of their class; two texts attend to each other."""

    num_classes: int
    pooling: str  # 'first' for the vector of START, or 'mean' over all tokens

    def setup(self) -> None:
        super().setup()
        fields.check_rules(self, {"pooling": ("first", "mean")})
        self.head = nn.Dense(self.num_classes)

    def __call__(self, ids: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns logits [B, V] in float32; the inputs are those of `encode`."""
        # A second text takes the upper half of the positions, to distinguish it from the first.
        positions = positions + (segments > 1) * (self.max_positions // 2)
        real_BS = segments > 0
        x_BSD = self.encode(ids, positions, real_BS.astype(jnp.int32), train=train)
        x_BSD = x_BSD.astype(jnp.float32)
        pooled_BD = x_BSD[:, 0] if self.pooling == "first" else mean(x_BSD, real_BS)
        return self.head(self.dropout(pooled_BD, deterministic=not train))

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step."""
        head = self.options.d_model * self.num_classes
        return self.encoder_flops(rows, length) + 3 * 2 * rows * head


def mean(x_BSD: Array, real_BS: Array) -> Array:
    """Returns the mean over the real positions, [B, D]; zeros for a row of padding."""
    # At least 1, because a weight of 0 does not remove the NaN = 0 / 0 of a row of padding.
    count_B1 = jnp.maximum(real_BS.sum(axis=1, keepdims=True), 1)
    return jnp.einsum("BSD,BS->BD", x_BSD, real_BS.astype(x_BSD.dtype)) / count_B1
