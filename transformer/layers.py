"""Arrays -> arrays: the layers of the paper's section 3, from attention upwards.

Shapes are suffixes, the same letters in the einsums: B batch, T query (target) length, S key
(source) length, D d_model, H heads, K key and query size (the paper's d_k), C value size (d_v), F
d_ff, V vocabulary, W beams.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array
# keys_BHKS, values_BHSC: so laid out, both products of attention read them as they lie. XLA would
# transpose a memory or a cache at each step of decoding (measured on CPUs: 3 to 8 times slower).
KeysValues = tuple[Array, Array]

glorot_uniform = nn.initializers.xavier_uniform()


def dot_general(x: Array, y: Array, dimensions: Any, **_: Any) -> Array:
    """`jax.lax.dot_general`, summed in float32 and rounded once, whatever the operands are.

    Accelerators do so anyway; for bfloat16 on CPUs it is what makes their matrix units be used.
    """
    (of_x, of_y), (batch, _) = dimensions
    count = len(of_x)
    last, first = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if batch or (tuple(of_x), tuple(of_y)) != (last, first):
        return _product(x, y, dimensions, x.dtype)
    # A dense layer, as a product of matrices: the gradient of y sums over one dimension then, and
    # XLA on CPUs does not have to transpose x and the output's gradient first.
    rows, columns = x.shape[:-count], y.shape[count:]
    x = x.reshape(math.prod(rows), -1)
    y = y.reshape(-1, math.prod(columns))
    return _product(x, y, (((1,), (0,)), ((), ())), x.dtype).reshape(*rows, *columns)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(x: Array, y: Array, dimensions: Any, dtype: jnp.dtype) -> Array:
    product = jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)
    return product.astype(dtype)


def _product_forward(
    x: Array, y: Array, dimensions: Any, dtype: jnp.dtype
) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, y, dimensions, dtype), (x, y)


def _product_backward(
    dimensions: Any, dtype: jnp.dtype, operands: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    # That of a product whose result is of the operands' type: the other's gradient, float32, would
    # have both products of the backward pass multiply float32.
    backward = jax.vjp(lambda x, y: jax.lax.dot_general(x, y, dimensions), *operands)[1]
    return backward(gradient.astype(operands[0].dtype))


_product.defvjp(_product_forward, _product_backward)


def attend(
    scores_BHTS: Array, mask_BTS: Array, values_BHSC: Array, dropout: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """The values' sum, weighted by the softmax of the scores where the mask is true, in float32.

    Returns (context_BTHC, weights_BHTS). A query with nothing to attend to gets zeros and no
    gradient.
    """
    mask_BHTS = mask_BTS[:, None]
    lowest = jnp.finfo(jnp.float32).min
    scores_BHTS = jnp.where(mask_BHTS, scores_BHTS.astype(jnp.float32), lowest)
    weights_BHTS = jnp.where(mask_BHTS, jax.nn.softmax(scores_BHTS, axis=-1), 0.0)
    dropped_BHTS = dropout(weights_BHTS).astype(values_BHSC.dtype)
    # einsum("BHTS,BHSC->BHTC")
    context_BHTC = dot_general(dropped_BHTS, values_BHSC, (((3,), (2,)), ((0, 1), (0, 1))))
    return context_BHTC.swapaxes(1, 2), weights_BHTS


class Dropout(nn.Module):
    """Sets numbers to zero at random and makes up for it (Srivastava et al. 2014; paper 5.4).

    Half a random word decides on a number, so `rate` is kept to 2^-17. Random words are a fifth of
    a training step's time on a CPU if a whole one is drawn for each, as flax's module does.
    """

    rate: float

    @nn.compact
    def __call__(self, x: Array, *, deterministic: bool) -> Array:
        kept = round((1 - self.rate) * 2**16)
        if deterministic or kept == 2**16:
            return x
        if not kept:
            return jnp.zeros_like(x)
        shape = (*x.shape[:-1], -(-x.shape[-1] // 2))
        words = jax.random.bits(self.make_rng("dropout"), shape, jnp.uint32)
        halves = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(*shape[:-1], -1)
        scaled = (x.astype(jnp.float32) * (2**16 / kept)).astype(x.dtype)
        return jnp.where(halves[..., : x.shape[-1]] < kept, scaled, 0)


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in several heads (paper 3.2.1 and 3.2.2).

    `project` gives keys and values of a memory, so that decoding can keep them; a call attends to
    them. The weights are sown as 'attention' [B, H, T, S] for whoever asks for mutable
    'intermediates'.
    """

    d_model: int
    num_heads: int
    key_size: int
    value_size: int
    use_bias: bool
    dropout_rate: float
    dtype: jnp.dtype

    def setup(self) -> None:
        dense = functools.partial(
            nn.DenseGeneral,
            use_bias=self.use_bias,
            kernel_init=glorot_uniform,
            dtype=self.dtype,
            dot_general=dot_general,
        )
        self.query = dense((self.num_heads, self.key_size))
        self.key = dense((self.num_heads, self.key_size))
        self.value = dense((self.num_heads, self.value_size))
        self.output = dense(self.d_model, axis=(-2, -1))
        self.dropout = Dropout(self.dropout_rate)

    def project(self, memory_BSD: Array) -> KeysValues:
        """The keys_BHKS and values_BHSC of a memory."""
        k_BSHK, v_BSHC = self.key(memory_BSD), self.value(memory_BSD)
        return k_BSHK.transpose(0, 2, 3, 1), v_BSHC.swapaxes(1, 2)

    def __call__(
        self, queries_BTD: Array, keys_values: KeysValues, mask_BTS: Array, *, train: bool
    ) -> Array:
        q_BTHK = self.query(queries_BTD) * self.key_size**-0.5
        k_BHKS, v_BHSC = keys_values
        scores_BHTS = jnp.einsum(
            "BTHK,BHKS->BHTS", q_BTHK, k_BHKS, preferred_element_type=jnp.float32
        )
        dropout = functools.partial(self.dropout, deterministic=not train)
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, v_BHSC, dropout)
        self.sow("intermediates", "attention", weights_BHTS)
        return self.output(context_BTHC)


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


def logits(x_BTD: Array, matrix_VD: Array) -> Array:
    """What the softmax over the vocabulary is of (paper 3.4): [B, T, V] in float32."""
    matrix_VD = matrix_VD.astype(x_BTD.dtype)
    if x_BTD.shape[0] * x_BTD.shape[1] <= 8 and x_BTD.dtype == jnp.float32:
        # A sentence's beams: reading the matrix is the work. CPUs do it twice as fast this way.
        return jnp.moveaxis(jnp.einsum("VD,BTD->VBT", matrix_VD, x_BTD), 0, -1)
    # einsum("BTD,VD->BTV")
    return _product(x_BTD, matrix_VD, (((2,), (1,)), ((), ())), jnp.float32)


def sinusoids(positions_BT: Array, d_model: int, layout: str) -> Array:
    """Position encodings [B, T, D] in float32, for any position (paper 3.5).

    'interleaved' is the paper's: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the
    same. 'concatenated' is its program's (tensor2tensor's get_timing_signal_1d): all sines, then
    all cosines, of pos / 10000^(i/(D/2-1)).
    """
    half = d_model // 2
    if layout == "interleaved":
        exponents = jnp.arange(half) / half
    else:
        exponents = jnp.arange(half) / (half - 1)
    angles = positions_BT[..., None].astype(jnp.float32) * 10000.0**-exponents
    waves = [jnp.sin(angles), jnp.cos(angles)]
    if layout == "interleaved":
        return jnp.stack(waves, axis=-1).reshape(*positions_BT.shape, d_model)
    return jnp.concatenate(waves, axis=-1)
