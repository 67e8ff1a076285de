"""Arrays -> arrays: the layers of the paper's section 3, from attention upwards.

Shapes are suffixes, the same letters in the einsums: B batch, T query (target) length, S key
(source) length, D d_model, H heads, K key and query size (the paper's d_k), C value size (d_v), F
d_ff, V vocabulary, W beams.
"""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models.attention import KeysValues
from transformer.models.dense import Dropout, dot_general, glorot_uniform

Array = jax.Array


class FeedForward(nn.Module):
    """Two linear maps with ReLU (or GELU) between, at each position alike (paper, equation 2)."""

    d_ff: int
    activation: str
    dropout_rate: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, *, train: bool) -> Array:
        dense = functools.partial(
            nn.Dense, kernel_init=glorot_uniform, dtype=self.dtype, dot_general=dot_general
        )
        activation = {"relu": nn.relu, "gelu": functools.partial(nn.gelu, approximate=False)}
        h_BTF = activation[self.activation](dense(self.d_ff, name="inner")(x_BTD))
        h_BTF = Dropout(self.dropout_rate)(h_BTF, deterministic=not train)
        return dense(x_BTD.shape[-1], name="outer")(h_BTF)


class Residual(nn.Module):
    """What stands around each sub-layer (paper 5.4): y = sub_layer(r.enter(x)); x = r.leave(x, y).

    'post' is the paper's LayerNorm(x + Dropout(SubLayer(x))); 'pre' is x +
    Dropout(SubLayer(LayerNorm(x))), what the paper's program came to later.
    """

    norm: str
    norm_epsilon: float
    dropout_rate: float
    dtype: jnp.dtype

    def setup(self) -> None:
        self.layer_norm = nn.LayerNorm(epsilon=self.norm_epsilon, dtype=self.dtype)
        self.dropout = Dropout(self.dropout_rate)

    def enter(self, x_BTD: Array) -> Array:
        return self.layer_norm(x_BTD) if self.norm == "pre" else x_BTD

    def leave(self, x_BTD: Array, y_BTD: Array, *, train: bool) -> Array:
        x_BTD = x_BTD + self.dropout(y_BTD, deterministic=not train)
        return self.layer_norm(x_BTD) if self.norm == "post" else x_BTD


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (paper figure 1, left).

    Its fields make the parts: each is called without arguments and gives a MultiHeadAttention, a
    FeedForward, a Residual.
    """

    attention: Callable[[], nn.Module]
    feed_forward: Callable[[], nn.Module]
    residual: Callable[[], nn.Module]

    def setup(self) -> None:
        self.self_attention = self.attention()
        self.self_attention_residual = self.residual()
        self.network = self.feed_forward()
        self.network_residual = self.residual()

    def __call__(self, x_BSD: Array, mask_BSS: Array, *, train: bool) -> Array:
        y_BSD = self.self_attention_residual.enter(x_BSD)
        y_BSD = self.self_attention(
            y_BSD, self.self_attention.project(y_BSD), mask_BSS, train=train
        )
        x_BSD = self.self_attention_residual.leave(x_BSD, y_BSD, train=train)
        y_BSD = self.network(self.network_residual.enter(x_BSD), train=train)
        return self.network_residual.leave(x_BSD, y_BSD, train=train)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, feed-forward (figure 1, right)."""

    attention: Callable[[], nn.Module]
    feed_forward: Callable[[], nn.Module]
    residual: Callable[[], nn.Module]

    def setup(self) -> None:
        self.self_attention = self.attention()
        self.self_attention_residual = self.residual()
        self.cross_attention = self.attention()
        self.cross_attention_residual = self.residual()
        self.network = self.feed_forward()
        self.network_residual = self.residual()

    def __call__(
        self,
        x_BTD: Array,
        memory: KeysValues,
        mask_BTT: Array,
        memory_mask_BTS: Array,
        *,
        remember: Callable[[KeysValues], KeysValues],
        train: bool,
    ) -> tuple[Array, KeysValues]:
        """Returns the layer's output and the keys and values that self-attention attended to.

        `memory` is what `cross_attention.project` made of the encoder's output. `remember` turns
        the keys and values of x into those to attend to: training gives them back as they are,
        decoding writes them beside those it has kept.
        """
        y_BTD = self.self_attention_residual.enter(x_BTD)
        keys_values = remember(self.self_attention.project(y_BTD))
        y_BTD = self.self_attention(y_BTD, keys_values, mask_BTT, train=train)
        x_BTD = self.self_attention_residual.leave(x_BTD, y_BTD, train=train)

        y_BTD = self.cross_attention_residual.enter(x_BTD)
        y_BTD = self.cross_attention(y_BTD, memory, memory_mask_BTS, train=train)
        x_BTD = self.cross_attention_residual.leave(x_BTD, y_BTD, train=train)

        y_BTD = self.network(self.network_residual.enter(x_BTD), train=train)
        return self.network_residual.leave(x_BTD, y_BTD, train=train), keys_values
