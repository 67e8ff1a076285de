"""The encoder-decoder Transformer of the paper's section 3."""

import functools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import dense, layers
from transformer.models.attention import KeysValues, MultiHeadAttention
from transformer.models.cache import write_at
from transformer.models.positions import sinusoids

Array = jax.Array

CHOICES = {
    "norm": ("post", "pre"),
    "positions": ("interleaved", "concatenated", "learned"),
    "tied_embeddings": ("all", "target", "none"),
    "activation": ("relu", "gelu"),
    "dtype": ("float32", "bfloat16"),
}


class Transformer(nn.Module):
    """Sources and shifted targets in, logits out.

    Parameters are float32; `dtype` is what activations are computed in, but softmax, loss and
    position encodings, which are float32 always.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int  # in the encoder, and as many in the decoder
    key_size: int  # of one head; 0: d_model / num_heads
    value_size: int  # likewise
    norm: str  # 'post': the paper's; 'pre'
    final_norm: bool  # one more LayerNorm on top of each stack; the paper has none
    norm_epsilon: float
    positions: str  # 'interleaved' sinusoids (the paper's), 'concatenated' ones, or 'learned'
    max_positions: int  # how many positions are learned; sinusoids know no limit
    tied_embeddings: (
        str  # 'all': source, target and output share one matrix; 'target' and output; 'none'
    )
    activation: str  # 'relu' or 'gelu'
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    dtype: str
    remat: bool  # in training, compute a layer's activations anew in the backward pass

    @property
    def position_limit(self) -> float:
        """How many positions a sequence may have: as many as were learned, or any number."""
        return self.max_positions if self.positions == "learned" else math.inf

    def setup(self) -> None:
        self._check()
        dtype = jnp.dtype(self.dtype)
        size = self.d_model // self.num_heads
        attention = functools.partial(
            MultiHeadAttention,
            self.d_model,
            self.num_heads,
            self.key_size or size,
            self.value_size or size,
            self.attention_bias,
            self.attention_dropout_rate,
            dtype,
        )
        feed_forward = functools.partial(
            layers.FeedForward, self.d_ff, self.activation, self.activation_dropout_rate, dtype
        )
        residual = functools.partial(
            layers.Residual, self.norm, self.norm_epsilon, self.dropout_rate, dtype
        )
        parts = (attention, feed_forward, residual)
        self.encoder = [layers.EncoderLayer(*parts) for _ in range(self.num_layers)]
        self.decoder = [layers.DecoderLayer(*parts) for _ in range(self.num_layers)]
        if self.final_norm:
            norm = functools.partial(nn.LayerNorm, epsilon=self.norm_epsilon, dtype=dtype)
            self.encoder_norm, self.decoder_norm = norm(), norm()

        # The paper shares one matrix (3.4) and is silent on its first values; sqrt(d_model) on
        # look-up makes the embedded input of variance 1.
        normal = nn.initializers.normal(self.d_model**-0.5)
        matrix = functools.partial(nn.Embed, features=self.d_model, embedding_init=normal)
        self.target_embedding = matrix(self.target_vocab_size)
        if self.tied_embeddings != "all":
            self.source_embedding = matrix(self.source_vocab_size)
        if self.tied_embeddings == "none":
            self.output_embedding = matrix(self.target_vocab_size)
        if self.positions == "learned":
            self.source_position_embedding = matrix(self.max_positions)
            self.target_position_embedding = matrix(self.max_positions)
        self.dropout = dense.Dropout(self.dropout_rate)

    def __call__(self, *inputs: Array, train: bool, **named_inputs: Array) -> Array:
        """Logits [B, T, V] in float32; the inputs are those of `factors`."""
        return dense.logits(*self.factors(*inputs, **named_inputs, train=train))

    def factors(
        self,
        source: Array,
        target: Array,
        source_positions: Array,
        target_positions: Array,
        source_segments: Array,
        target_segments: Array,
        *,
        train: bool,
    ) -> tuple[Array, Array]:
        """What the logits are the product of, x_BTD and matrix_VD: `layers.logits(x, matrix)`.

        All arguments are int [B, S] or [B, T]. `target` is shifted right already. Segments number
        the sentence pairs of a packed row from 1, 0 is padding; a position sees its own pair only,
        and of the target nothing behind itself.
        """
        memory_BSD = self.encode(source, source_positions, source_segments, train=train)
        x_BTD = self._embed_target(target, target_positions, train=train)
        mask_BTT = _same(target_segments, target_segments)
        mask_BTT &= target_positions[:, :, None] >= target_positions[:, None, :]
        memory_mask_BTS = _same(target_segments, source_segments)

        def decode(layer: nn.Module, x_BTD: Array, memory_BSD: Array) -> Array:
            memory, masks = layer.cross_attention.project(memory_BSD), (mask_BTT, memory_mask_BTS)
            return layer(x_BTD, memory, *masks, remember=lambda new: new, train=train)[0]

        decode = nn.remat(decode) if self.remat and train else decode
        for layer in self.decoder:
            x_BTD = decode(layer, x_BTD, memory_BSD)
        return self._output(x_BTD)

    def encode(
        self, source: Array, source_positions: Array, source_segments: Array, *, train: bool
    ) -> Array:
        """The encoder's output, memory_BSD."""
        embedding = (
            self.target_embedding if self.tied_embeddings == "all" else self.source_embedding
        )
        learned = self.source_position_embedding if self.positions == "learned" else None
        x_BSD = self._embed(embedding, learned, source, source_positions, train=train)
        mask_BSS = _same(source_segments, source_segments)
        encode = lambda layer, x_BSD: layer(x_BSD, mask_BSS, train=train)
        encode = nn.remat(encode) if self.remat and train else encode
        for layer in self.encoder:
            x_BSD = encode(layer, x_BSD)
        return self.encoder_norm(x_BSD) if self.final_norm else x_BSD

    def prepare(
        self, memory_BSD: Array, memory_mask_BS: Array, length: int, num_beams: int
    ) -> tuple[dict, dict]:
        """What `step` needs: (memory, cache), each layer's keys and values.

        The memory's are projected here, once a sentence. The cache has room for `length` target
        positions of W beams: keys are [B, H, K, length * W], values [B, H, length * W, C].
        """
        keys_values = [layer.cross_attention.project(memory_BSD) for layer in self.decoder]
        memory = {"keys_values": keys_values, "mask": memory_mask_BS}

        def empty(keys_values: KeysValues) -> KeysValues:
            (B, H, K, _), C = keys_values[0].shape, keys_values[1].shape[-1]
            zeros = functools.partial(jnp.zeros, dtype=keys_values[0].dtype)
            return zeros((B, H, K, length * num_beams)), zeros((B, H, length * num_beams, C))

        beams = jnp.arange(num_beams, dtype=jnp.int32)
        writers_BWT = jnp.tile(beams[:, None], (len(memory_mask_BS), 1, length))
        return memory, {"keys_values": list(map(empty, keys_values)), "writers": writers_BWT}

    def step(
        self, tokens_BWT: Array, position: Array, memory: dict, cache: dict
    ) -> tuple[Array, dict]:
        """Logits [B, W, T, V] after each of T more tokens of W beams, and the cache with them.

        `tokens` are the decoder's input, the first of them at `position`: the start symbol at 0,
        then what was generated. A sentence's beams attend, as so many queries, to what all of them
        have written, each to what is its own history: so the keys and values are never moved when
        beams are reordered.
        """
        B, W, T = tokens_BWT.shape
        positions_T = position + jnp.arange(T)
        tokens_BQ = tokens_BWT.swapaxes(1, 2).reshape(B, T * W)  # Q = (T, W) queries
        positions_BQ = jnp.broadcast_to(jnp.repeat(positions_T, W), (B, T * W))
        x_BQD = self._embed_target(tokens_BQ, positions_BQ, train=False)

        beams = jnp.arange(W, dtype=jnp.int32)
        own_BWT = jnp.broadcast_to(beams[:, None], (B, W, T))
        writers_BWT = jax.lax.dynamic_update_slice(cache["writers"], own_BWT, (0, 0, position))
        past = jnp.arange(writers_BWT.shape[-1]) <= positions_T[:, None]
        # of query (t, w): what beam w' wrote at position t'
        mask = past[:, None, :, None] & (writers_BWT[:, None, :, :, None] == beams)
        mask_BQS = mask.reshape(B, T * W, -1)
        updated = []
        for layer, memory_layer, kept in zip(
            self.decoder, memory["keys_values"], cache["keys_values"], strict=True
        ):
            x_BQD, kept = layer(
                x_BQD,
                memory_layer,
                mask_BQS,
                memory["mask"][:, None, :],
                remember=functools.partial(write_at, kept, position * W),
                train=False,
            )
            updated.append(kept)
        logits_BQV = dense.logits(*self._output(x_BQD))
        logits_BWTV = logits_BQV.reshape(B, T, W, -1).swapaxes(1, 2)
        return logits_BWTV, {"keys_values": updated, "writers": writers_BWT}

    @staticmethod
    def reorder(cache: dict, parents_BW: Array) -> dict:
        """The cache of beams that go on from `parents`: only who wrote their history changes."""
        writers_BWT = jnp.take_along_axis(cache["writers"], parents_BW[:, :, None], axis=1)
        return {**cache, "writers": writers_BWT}

    @staticmethod
    def grow(cache: dict, length: int) -> dict:
        """The cache with room for `length` positions."""
        num_beams, more = cache["writers"].shape[1], length - cache["writers"].shape[2]

        def pad(x: Array, axis: int, count: int) -> Array:
            return jnp.pad(x, [(0, count if i == axis else 0) for i in range(x.ndim)])

        keys_values = [
            (pad(keys, 3, more * num_beams), pad(values, 2, more * num_beams))
            for keys, values in cache["keys_values"]
        ]
        return {"keys_values": keys_values, "writers": pad(cache["writers"], 2, more)}

    def _check(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"config.model.{name} is one of {', '.join(map(repr, choices))}, "
                    f"found {getattr(self, name)!r}"
                )
        for name in ("d_model", "d_ff", "num_heads"):
            if getattr(self, name) < 1:
                raise UserError(f"config.model.{name} is at least 1, found {getattr(self, name)}")
        split = self.key_size and self.value_size
        if self.d_model < 4 or self.d_model % 2 or (self.d_model % self.num_heads and not split):
            raise UserError(
                f"config.model.d_model={self.d_model} has to be even and a multiple of "
                f"config.model.num_heads={self.num_heads} (or give key_size and value_size)"
            )
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise UserError(
                "config.model.tied_embeddings='all' needs one vocabulary for both sides: set "
                "config.vocabulary.shared=True, or tie the 'target' side only"
            )

    def _embed_target(self, target: Array, positions: Array, *, train: bool) -> Array:
        learned = self.target_position_embedding if self.positions == "learned" else None
        return self._embed(self.target_embedding, learned, target, positions, train=train)

    def _embed(
        self,
        embedding: nn.Embed,
        learned: Callable | None,
        ids_BT: Array,
        positions_BT: Array,
        *,
        train: bool,
    ) -> Array:
        """Embeddings times sqrt(d_model) plus positions, with dropout (paper 3.4, 3.5, 5.4)."""
        x_BTD = embedding(ids_BT) * self.d_model**0.5
        if learned is not None:
            # Padding may lie behind the last one.
            x_BTD += learned(jnp.minimum(positions_BT, self.max_positions - 1))
        else:
            x_BTD += sinusoids(positions_BT, self.d_model, self.positions)
        return self.dropout(x_BTD.astype(self.dtype), deterministic=not train)

    def _output(self, x_BTD: Array) -> tuple[Array, Array]:
        if self.final_norm:
            x_BTD = self.decoder_norm(x_BTD)
        output = self.output_embedding if self.tied_embeddings == "none" else self.target_embedding
        return x_BTD, output.embedding


def _same(segments_BT: Array, segments_BS: Array) -> Array:
    """Which positions belong to the same sentence pair, bool [B, T, S]; padding (0) to none."""
    return (segments_BT[:, :, None] == segments_BS[:, None, :]) & (segments_BS > 0)[:, None, :]
