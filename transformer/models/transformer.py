"""The encoder-decoder Transformer (paper section 3): encode, decode, and one step of decoding."""

import dataclasses
import functools

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import cache as decoder_cache
from transformer.models import dense, fields, stack
from transformer.models.cache import Cache, KeysValues
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View, same_segment, self_view

Memory = tuple[list[KeysValues], Array]  # projected by each layer; its mask_BS


class Transformer(nn.Module):
    """Maps sources and shifted targets to logits.

    Params are float32. Activations have `dtype`; softmax, loss and position encodings are always
    float32.
    """

    source_vocab_size: int
    target_vocab_size: int
    options: LayerOptions  # num_layers is the encoder's
    num_decoder_layers: int  # 0 for the encoder's
    decoder_mixer: str  # '' for the encoder's
    max_positions: int  # of learned positions; sinusoids have no limit
    tied_embeddings: str  # one matrix for 'all', for 'target' and output, or 'none'
    output_bias: bool  # of the logits
    dtype: str

    def setup(self) -> None:
        stack.check_options(self)
        fields.check_shared_vocabulary(self, otherwise="tie the 'target' side only")
        self.encoder = stack.Stack(self.options, causal=False, dtype=self.dtype)
        self.decoder = stack.Stack(
            self.decoder_options, causal=True, dtype=self.dtype, cross_attention=True
        )

        # Embeddings. The paper shares one matrix (3.4) and does not give its initial values. A
        # lookup is multiplied by sqrt(d_model), so N(0, 1/d_model) gives an input of variance 1.
        D = self.options.d_model
        normal = dense.normal(D**-0.5)
        embedding_table = functools.partial(nn.Embed, features=D, embedding_init=normal)
        self.target_embedding = embedding_table(num_embeddings=self.target_vocab_size)
        self.source_embedding = self.output_embedding = self.target_embedding
        if self.tied_embeddings != "all":
            self.source_embedding = embedding_table(num_embeddings=self.source_vocab_size)
        if self.tied_embeddings == "none":
            self.output_embedding = embedding_table(num_embeddings=self.target_vocab_size)
        if self.output_bias:
            # Not in the paper: Marian's checkpoints have a bias.
            zeros = nn.initializers.zeros
            self.bias_V = self.param("output_bias", zeros, (self.target_vocab_size,))
        # Two modules, because learned positions have one table per side.
        self.source_positions = stack.input_positions(self)
        self.target_positions = stack.input_positions(self)
        self.dropout = dense.Dropout(rate=self.options.dropout_rate)

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

        Inputs are int [B, S] or [B, T], and `target` is already shifted right. Segments number the
        sentence pairs of a packed row from 1; 0 is padding. Positions count from 0 in each pair. A
        query attends to its own pair only, and in the target to its own and earlier positions only.
        """
        memory_BSD = self.encode(source, source_positions, source_segments, train=train)
        x_BTD = self._embed("target", target, target_positions, train=train)
        view = self_view(target_positions, target_segments, causal=True)
        # Cross-attention: target segments 1 1 2 and source segments 1 2 2 have mask 100 100 011.
        memory_mask_BTS = same_segment(target_segments, source_segments)
        memory_view = View(memory_mask_BTS, target_positions, source_positions)
        return self.decoder(x_BTD, view, memory_BSD, memory_view, train=train)

    def logits(self, x_BTD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
        """Returns the logits [B, T, V] before the softmax (paper 3.4)."""
        logits_BTV = dense.logits(x_BTD, self.output_embedding.embedding, dtype)
        return logits_BTV + self.bias_V.astype(dtype) if self.output_bias else logits_BTV

    def encode(
        self, source: Array, source_positions: Array, source_segments: Array, *, train: bool
    ) -> Array:
        """Returns the encoder's output [B, S, D], the memory; the inputs are those of `hidden`."""
        x_BSD = self._embed("source", source, source_positions, train=train)
        # Not causal: a source position sees its whole sentence, but no other sentence of the row.
        view = self_view(source_positions, source_segments, causal=False)
        return self.encoder(x_BSD, view, train=train)

    def prepare(
        self, memory_BSD: Array, memory_mask_BS: Array, room: int, num_beams: int
    ) -> tuple[Memory, Cache]:
        """Returns the (memory, cache) that `step` takes, with `room` for target positions.

        Each row of `memory_BSD` is one sentence, from position 0 on. The memory is projected once
        to each layer's keys and values. The W beams of a sentence share them and the KV cache.
        """
        # One position is enough, because only its shape and dtype are read.
        cache = self.decoder.empty_cache(memory_BSD[:, :1], room, num_beams)
        return (self.decoder.project(memory_BSD), memory_mask_BS), cache

    def step(
        self, tokens_BWT: Array, position: Array, memory: Memory, cache: Cache
    ) -> tuple[Array, Cache]:
        """Returns logits [B, W, T, V] after each of the next T tokens of W beams, and the cache.

        `tokens` are the decoder's input from `position` on: START at 0, then the generated tokens.
        T is 1 in a search; a larger T scores a known prefix in one call. cache.py describes how
        beams share keys and values.
        """
        memories, memory_mask_BS = memory
        queries = decoder_cache.queries(tokens_BWT, position, cache.ancestry_BWP)
        positions_BQ = queries.view.query_positions_BT
        # Rows are not packed, so source position s is s in each row.
        B, S = memory_mask_BS.shape
        memory_positions_BS = jnp.broadcast_to(jnp.arange(S), (B, S))
        # All queries share one mask [B, 1, S]: each sees its whole source.
        memory_view = View(memory_mask_BS[:, None, :], positions_BQ, memory_positions_BS)
        # All rows have the same positions, so sinusoids are computed for one row.
        x_BQD = self._embed("target", queries.tokens_BQ, positions_BQ[:1], train=False)
        x_BQD, cache = self.decoder.step(x_BQD, queries, memories, memory_view, cache.states)
        return queries.per_beam(self.logits(x_BQD)), cache

    attention_weights = staticmethod(stack.stacked_weights)

    @property
    def decoder_options(self) -> LayerOptions:
        """The options of the decoder's layers."""
        return dataclasses.replace(
            self.options,
            num_layers=self.num_decoder_layers or self.options.num_layers,
            mixer=self.decoder_mixer or self.options.mixer,
        )

    position_limit = property(stack.position_limit)
    takes_packed_rows = property(stack.take_packed_rows)

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step on `rows` rows of `length` positions per side.

        Only matrix products count, with attention between all positions of a row, padding included.
        The backward pass counts as two forward passes; `remat` is not counted.
        """
        encoder = stack.multiply_adds(self.options, length, causal=False)
        decoder = stack.multiply_adds(
            self.decoder_options, length, causal=True, cross_attention=True
        )
        logits = self.options.d_model * self.target_vocab_size
        # 3: forward, gradients of inputs, gradients of weights. 2: a multiply and an add.
        return 3 * 2 * rows * length * (encoder + decoder + logits)

    def _embed(self, side: str, ids_BT: Array, positions_BT: Array, *, train: bool) -> Array:
        """Returns embeddings times sqrt(d_model) plus positions, dropped out (3.4, 3.5, 5.4)."""
        embedding = getattr(self, f"{side}_embedding")
        add_positions = getattr(self, f"{side}_positions")
        x_BTD = add_positions(embedding(ids_BT) * embedding.features**0.5, positions_BT)
        return self.dropout(x_BTD.astype(self.dtype), deterministic=not train)
