"""The decoder-only language model (Radford et al. 2018, "Improving Language Understanding").

It is the Transformer's decoder without cross-attention: P(x_t | x_<t) of one stream of tokens.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import cache as decoder_cache
from transformer.models import dense, stack
from transformer.models.cache import Cache
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import self_view


class LanguageModel(nn.Module):
    """Maps the tokens so far to the logits of the next token.

    Params are float32. Activations have `dtype`; softmax, loss and position encodings are always
    float32.
    """

    vocab_size: int
    options: LayerOptions
    max_positions: int  # the number of learned positions; other encodings have no limit
    tied_embeddings: bool  # whether embedding and output are one matrix
    dtype: str

    def setup(self) -> None:
        stack.check_options(self)
        self.decoder = stack.Stack(self.options, causal=True, dtype=self.dtype)
        D = self.options.d_model
        normal = dense.normal(D**-0.5)
        self.embedding = nn.Embed(self.vocab_size, D, embedding_init=normal)
        if not self.tied_embeddings:
            self.output_embedding = nn.Embed(self.vocab_size, D, embedding_init=normal)
        self.add_positions = stack.input_positions(self)
        self.dropout = dense.Dropout(rate=self.options.dropout_rate)

    def __call__(self, *inputs: Array, train: bool, **named_inputs: Array) -> Array:
        """Returns logits [B, T, V] in float32; the inputs are those of `hidden`."""
        return self.logits(self.hidden(*inputs, **named_inputs, train=train))

    def hidden(self, tokens: Array, positions: Array, segments: Array, *, train: bool) -> Array:
        """Returns the output [B, T, D] after each token, which `logits` maps to the vocabulary.

        Inputs are int [B, T]. `tokens` are already shifted right: the logits at position t predict
        the token after tokens[t]. Segments number the texts of a row from 1; 0 is padding.
        Positions count from 0 in each text. A token attends to itself and to earlier tokens of its
        text.
        """
        x_BTD = self._embed(tokens, positions, train=train)
        view = self_view(positions, segments, causal=True)
        return self.decoder(x_BTD, view, train=train)

    def logits(self, x_BTD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
        """Returns the logits [B, T, V] before the softmax."""
        output = self.embedding if self.tied_embeddings else self.output_embedding
        return dense.logits(x_BTD, output.embedding, dtype)

    def encode(self, *_: Array, train: bool) -> tuple[()]:
        """Returns the memory, which is empty, because a language model has no source."""
        return ()

    def prepare(
        self, memory: tuple[()], memory_mask_BS: Array, room: int, num_beams: int
    ) -> tuple[tuple[()], Cache]:
        """Returns the memory, and a cache for `room` tokens; only B of `memory_mask` is read."""
        x_B1D = jnp.zeros((len(memory_mask_BS), 1, self.options.d_model), self.dtype)
        return memory, self.decoder.empty_cache(x_B1D, room, num_beams)

    def step(
        self, tokens_BWT: Array, position: Array, memory: tuple[()], cache: Cache
    ) -> tuple[Array, Cache]:
        """Returns logits [B, W, T, V] after each of the next T tokens of W beams, and the cache.

        `tokens` are at positions from `position` on. T is 1 in generation; a prompt is one step.
        """
        queries = decoder_cache.queries(tokens_BWT, position, cache.ancestry_BWP)
        # One row of positions is enough, because all rows have the same positions.
        positions_1Q = queries.view.query_positions_BT[:1]
        x_BQD = self._embed(queries.tokens_BQ, positions_1Q, train=False)
        x_BQD, cache = self.decoder.step(x_BQD, queries, None, None, cache.states)
        return queries.per_beam(self.logits(x_BQD)), cache

    attention_weights = staticmethod(stack.stacked_weights)

    position_limit = property(stack.position_limit)
    takes_packed_rows = property(stack.take_packed_rows)

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step on `rows` rows of `length` tokens.

        They are counted as in `Transformer.flops`.
        """
        decoder = stack.multiply_adds(self.options, length, causal=True)
        return 3 * 2 * rows * length * (decoder + self.options.d_model * self.vocab_size)

    def _embed(self, tokens_BT: Array, positions_BT: Array, *, train: bool) -> Array:
        """Embeds tokens with variance 1, adds the positions, and applies dropout."""
        x_BTD = self.embedding(tokens_BT)
        scale = self.options.d_model**0.5
        if self.options.positions == "learned":
            # Both tables are N(0, 1/d_model), because GPT's have equal variances.
            x_BTD = self.add_positions(x_BTD, positions_BT) * scale
        else:
            x_BTD = self.add_positions(x_BTD * scale, positions_BT)
        return self.dropout(x_BTD.astype(self.dtype), deterministic=not train)
