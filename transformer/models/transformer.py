"""The encoder-decoder Transformer (paper section 3): encode, decode, and one step of decoding."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import cache as kv_cache
from transformer.models import dense, fields, layers
from transformer.models.attention import KeysValues, MultiHeadAttention, View, same_segment
from transformer.models.cache import KVCache
from transformer.models.positions import sinusoids
from transformer.models.scores import SCORES

Array = jax.Array

CHOICES = {
    "score": SCORES,
    "norm": ("post", "pre"),
    "positions": ("interleaved", "concatenated", "learned"),
    "tied_embeddings": ("all", "target", "none"),
    "activation": tuple(layers.ACTIVATIONS),
    "dtype": ("float32", "bfloat16"),
}


class Transformer(nn.Module):
    """Maps sources and shifted targets to logits.

    Params are float32. Activations have `dtype`, except in softmax, loss and position encodings,
    which are always float32.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int  # in the encoder, and as many in the decoder
    key_size: int  # of one head; 0: d_model / num_heads
    value_size: int  # likewise
    score: str  # of queries and keys: 'scaled_dot' (the paper's), or another of scores.py
    norm: str  # 'post' (the paper's) or 'pre'
    final_norm: bool  # one more LayerNorm on top of each stack; the paper has none
    norm_epsilon: float
    positions: str  # 'interleaved' sinusoids (the paper's), 'concatenated' ones, or 'learned'
    max_positions: int  # how many positions are learned; sinusoids have no limit
    tied_embeddings: str  # which are one matrix: 'all'; 'target' and output; 'none'
    activation: str  # 'relu' or 'gelu'
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    dtype: str
    remat: bool  # in training, compute each layer's activations again in the backward pass

    def setup(self) -> None:
        self._check()
        dtype = jnp.dtype(self.dtype)
        attention = functools.partial(
            MultiHeadAttention,
            d_model=self.d_model,
            num_heads=self.num_heads,
            key_size=self._head_size(self.key_size),
            value_size=self._head_size(self.value_size),
            score=self.score,
            use_bias=self.attention_bias,
            dropout_rate=self.attention_dropout_rate,
            dtype=dtype,
        )
        feed_forward = functools.partial(
            layers.FeedForward,
            d_ff=self.d_ff,
            activation=self.activation,
            dropout_rate=self.activation_dropout_rate,
            dtype=dtype,
        )
        residual = functools.partial(
            layers.Residual,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
            dtype=dtype,
        )
        self.encoder = [
            layers.EncoderLayer(
                self_attention=attention(),
                self_attention_residual=residual(),
                feed_forward=feed_forward(),
                feed_forward_residual=residual(),
            )
            for _ in range(self.num_layers)
        ]
        self.decoder = [
            layers.DecoderLayer(
                self_attention=attention(),
                self_attention_residual=residual(),
                cross_attention=attention(),
                cross_attention_residual=residual(),
                feed_forward=feed_forward(),
                feed_forward_residual=residual(),
            )
            for _ in range(self.num_layers)
        ]
        if self.final_norm:
            self.encoder_norm = nn.LayerNorm(epsilon=self.norm_epsilon, dtype=dtype)
            self.decoder_norm = nn.LayerNorm(epsilon=self.norm_epsilon, dtype=dtype)

        # The paper shares one matrix (3.4) and does not give its initial values. A lookup is
        # multiplied by sqrt(d_model), so N(0, 1/d_model) gives an input of variance 1.
        normal = nn.initializers.normal(self.d_model**-0.5)
        embedding_table = functools.partial(nn.Embed, features=self.d_model, embedding_init=normal)
        self.target_embedding = embedding_table(num_embeddings=self.target_vocab_size)
        self.source_embedding = self.output_embedding = self.target_embedding
        if self.tied_embeddings != "all":
            self.source_embedding = embedding_table(num_embeddings=self.source_vocab_size)
        if self.tied_embeddings == "none":
            self.output_embedding = embedding_table(num_embeddings=self.target_vocab_size)
        self.source_position_embedding = self.target_position_embedding = None
        if self.positions == "learned":
            self.source_position_embedding = embedding_table(num_embeddings=self.max_positions)
            self.target_position_embedding = embedding_table(num_embeddings=self.max_positions)
        self.dropout = dense.Dropout(rate=self.dropout_rate)

    def __call__(self, *inputs: Array, train: bool, **named_inputs: Array) -> Array:
        """Returns logits [B, T, V] in float32; the inputs are those of `hidden`."""
        return self.logits(self.hidden(*inputs, **named_inputs, train=train))

    def hidden(
        self,
        source: Array,
        target: Array,
        source_positions: Array,
        target_positions: Array,
        source_segments: Array,
        target_segments: Array,
        *,
        train: bool,
    ) -> Array:
        """Returns the decoder's output [B, T, D], which `logits` maps to the vocabulary.

        All inputs are int [B, S] or [B, T]. `target` is already shifted right. Segments number the
        sentence pairs of a packed row from 1, 0 is padding; positions count from 0 in each. A query
        attends only to its own pair, and in the target only to its own and earlier positions.
        """
        memory_BSD = self.encode(source, source_positions, source_segments, train=train)
        x_BTD = self._embed_target(target, target_positions, train=train)
        # Causal within each pair. Segments 1 1 2 0, positions 0 1 0 0: rows 1000 1100 0010 0000.
        mask_BTT = same_segment(target_segments, target_segments)
        mask_BTT &= target_positions[:, :, None] >= target_positions[:, None, :]
        memory_mask_BTS = same_segment(target_segments, source_segments)
        view = View(mask_BTT, target_positions, target_positions)
        memory_view = View(memory_mask_BTS, target_positions, source_positions)

        # nn.remat takes a function of a submodule and the arrays whose gradients it computes.
        def decode(layer: nn.Module, x_BTD: Array, memory_BSD: Array) -> Array:
            memory = layer.cross_attention.project(memory_BSD)
            return layer(x_BTD, memory, view, memory_view, train=train)[0]

        decode = nn.remat(decode) if self.remat and train else decode
        for layer in self.decoder:
            x_BTD = decode(layer, x_BTD, memory_BSD)
        return self.decoder_norm(x_BTD) if self.final_norm else x_BTD

    def logits(self, x_BTD: Array) -> Array:
        """Returns the logits [B, T, V] before the softmax (paper 3.4), in float32."""
        return dense.logits(x_BTD, self.output_embedding.embedding)

    def encode(
        self, source: Array, source_positions: Array, source_segments: Array, *, train: bool
    ) -> Array:
        """Returns the encoder's output [B, S, D], the memory; the inputs are those of `hidden`."""
        embeddings = self.source_embedding, self.source_position_embedding
        x_BSD = self._embed(*embeddings, source, source_positions, train=train)
        mask_BSS = same_segment(source_segments, source_segments)
        view = View(mask_BSS, source_positions, source_positions)
        encode = lambda layer, x_BSD: layer(x_BSD, view, train=train)  # for nn.remat, as above
        encode = nn.remat(encode) if self.remat and train else encode
        for layer in self.encoder:
            x_BSD = encode(layer, x_BSD)
        return self.encoder_norm(x_BSD) if self.final_norm else x_BSD

    def prepare(
        self, memory_BSD: Array, memory_mask_BS: Array, room: int, num_beams: int
    ) -> tuple[tuple[list[KeysValues], Array], KVCache]:
        """Returns the (memory, cache) that `step` takes; `room` is the cache's target positions.

        Each row of `memory_BSD` is one sentence, from position 0 on, projected to each layer's keys
        and values here, once. The W beams of a sentence share these and its KV cache.
        """
        keys_values = [layer.cross_attention.project(memory_BSD) for layer in self.decoder]
        cache = kv_cache.empty_cache(keys_values, room, num_beams)
        return (keys_values, memory_mask_BS), cache

    def step(
        self,
        tokens_BWT: Array,
        position: Array,
        memory: tuple[list[KeysValues], Array],
        cache: KVCache,
    ) -> tuple[Array, KVCache]:
        """Returns logits [B, W, T, V] after each of T further tokens of W beams, and the cache.

        `tokens` are the decoder's input from `position` on: START at 0, then what was generated. T
        is 1 in a search; a larger T scores a known prefix in one call. cache.py says how beams
        share the keys and values.
        """
        B, W, T = tokens_BWT.shape
        memories, memory_mask_BS = memory
        positions_T = position + jnp.arange(T)
        # Q = T * W queries, in the order of the slots they write: token t of beam w is query
        # t * W + w, and its keys and values go to slot (position + t) * W + w.
        slot = position * W
        tokens_BQ = tokens_BWT.swapaxes(1, 2).reshape(B, T * W)
        positions_BQ = jnp.broadcast_to(jnp.repeat(positions_T, W), (B, T * W))
        ancestry_BWP = kv_cache.write_ancestry(cache.ancestry_BWP, position, T)
        mask_BQN = kv_cache.history_mask(ancestry_BWP, positions_T)
        view = View(mask_BQN, positions_BQ, kv_cache.slot_positions(ancestry_BWP))
        memory_positions_BS = jnp.broadcast_to(
            jnp.arange(memory_mask_BS.shape[1]), memory_mask_BS.shape
        )
        memory_view = View(memory_mask_BS[:, None, :], positions_BQ, memory_positions_BS)

        x_BQD = self._embed_target(tokens_BQ, positions_BQ, train=False)
        updated = []
        for layer, layer_memory, layer_cache in zip(
            self.decoder, memories, cache.keys_values, strict=True
        ):
            x_BQD, layer_cache = layer(
                x_BQD, layer_memory, view, memory_view, cache=layer_cache, slot=slot, train=False
            )
            updated.append(layer_cache)
        x_BQD = self.decoder_norm(x_BQD) if self.final_norm else x_BQD
        # Query t * W + w back to [B, W, T].
        logits_BWTV = self.logits(x_BQD).reshape(B, T, W, -1).swapaxes(1, 2)
        return logits_BWTV, KVCache(updated, ancestry_BWP)

    # Static: they are called outside `apply`, and use no params.
    reorder = staticmethod(kv_cache.reorder)
    grow = staticmethod(kv_cache.grow)

    @property
    def position_limit(self) -> float:
        """Returns how many positions a sequence may have: as many as are learned, or any number."""
        return self.max_positions if self.positions == "learned" else math.inf

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step on `rows` rows of `length` positions per side.

        A multiply-add is two. Only matrix products count, attention between all positions of a row,
        padding included; the backward pass is two forward passes, and `remat` is not counted.
        """
        D, F, H = self.d_model, self.d_ff, self.num_heads
        K, C = self._head_size(self.key_size), self._head_size(self.value_size)
        # Of one position: four projections, and its scores and sums over all positions.
        attention = 2 * D * H * (K + C) + length * H * (K + C)
        feed_forward = 2 * D * F
        encoder = self.num_layers * (attention + feed_forward)
        decoder = self.num_layers * (2 * attention + feed_forward)
        logits = D * self.target_vocab_size
        return 3 * 2 * rows * length * (encoder + decoder + logits)

    @nn.nowrap
    def attention_weights(self, sown: dict) -> dict[str, Array]:
        """Returns the weights 'encoder' [L, B, H, S, S], 'decoder' and 'cross' [L, B, H, T, S]."""
        parts = {
            "encoder": ("encoder", "self_attention"),
            "decoder": ("decoder", "self_attention"),
            "cross": ("decoder", "cross_attention"),
        }
        return {
            name: jnp.stack(
                [sown[f"{stack}_{i}"][part]["attention"][0] for i in range(self.num_layers)]
            )
            for name, (stack, part) in parts.items()
        }

    def _embed_target(self, target: Array, positions: Array, *, train: bool) -> Array:
        embeddings = self.target_embedding, self.target_position_embedding
        return self._embed(*embeddings, target, positions, train=train)

    def _embed(
        self,
        embedding: nn.Embed,
        position_embedding: nn.Embed | None,
        ids_BT: Array,
        positions_BT: Array,
        *,
        train: bool,
    ) -> Array:
        """Adds positions to sqrt(d_model) times the embeddings; dropout (paper 3.4, 3.5, 5.4)."""
        x_BTD = embedding(ids_BT) * self.d_model**0.5
        if position_embedding is None:
            x_BTD += sinusoids(positions_BT, self.d_model, self.positions)
        else:
            # Padding may have positions beyond the learned ones.
            x_BTD += position_embedding(jnp.minimum(positions_BT, self.max_positions - 1))
        return self.dropout(x_BTD.astype(self.dtype), deterministic=not train)

    def _head_size(self, size: int) -> int:
        return size or self.d_model // self.num_heads

    def _check(self) -> None:
        """Raises UserError for invalid fields, named by their config key."""
        fields.check_choices(self, CHOICES)
        fields.check_at_least(self, 1, ("d_model", "d_ff", "num_heads", "num_layers"))
        fields.check_at_least(self, 0, ("key_size", "value_size", "max_positions", "norm_epsilon"))
        rates = ("dropout_rate", "attention_dropout_rate", "activation_dropout_rate")
        fields.check_rates(self, rates)
        fields.check_even(self, 4, ("d_model",))
        fields.check_shared_vocabulary(self, otherwise="tie the 'target' side only")
        sizes_given = self.key_size and self.value_size
        if self.d_model % self.num_heads and not sizes_given:
            raise UserError(
                f"config.model.d_model={self.d_model} has to be a multiple of "
                f"config.model.num_heads={self.num_heads} (or give key_size and value_size)"
            )
