"""Recurrent sequence-to-sequence models, which the Transformer replaced.

Encoder and decoder have the cells of cells.py; the encoder reads in one direction or in both. The
decoder reads the source through one fixed vector (Sutskever et al. 2014), or by the attention of
recurrent_step.py (Bahdanau et al. 2015, Luong et al. 2015, Paulus et al. 2017).
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError, check_value
from transformer.families.recurrent import recurrent_step
from transformer.families.recurrent.cells import GATES, Cell, over_positions
from transformer.families.recurrent.recurrent_step import Attention, DecoderStep, State
from transformer.models import dense, fields

Array = jax.Array
RULES = {
    "cell": tuple(GATES),
    "cell_norm": ("none", "layer"),
    "attention": recurrent_step.KINDS,
    "attention_place": recurrent_step.PLACES,
    "window": recurrent_step.WINDOWS,
    "tied_embeddings": ("all", "none"),
    **dict.fromkeys(("d_model", "num_layers", "window_radius", "location_positions"), "at least 1"),
    "forget_bias": "at least 0",
    "dropout_rate": "at least 0 and below 1",
}


class Recurrent(nn.Module):
    """Maps sources and shifted targets to logits. A row holds one sentence pair."""

    source_vocab_size: int
    target_vocab_size: int
    d_model: int  # of embeddings and states; half per direction of a bidirectional encoder
    num_layers: int
    bidirectional: bool  # whether the encoder also reads the source backwards
    cell: str
    cell_norm: str  # 'layer' for layer normalisation inside the cells, or 'none'
    forget_bias: float  # added to the logit of an LSTM's forget gate; a GRU has none
    attention_options: Attention  # of the decoder
    tied_embeddings: str  # 'all' for one matrix of source, target and output, or 'none'
    dropout_rate: float  # of embeddings and of the decoder's outputs

    takes_packed_rows = False

    def setup(self) -> None:
        fields.check_rules(self, RULES)
        options = self.attention_options
        if self.bidirectional:
            check_value("model.d_model", self.d_model, "even and at least 2")
        if options.input_feeding and options.attention_place == "before":
            raise UserError(
                "config.model.input_feeding=True needs config.model.attention_place='after': "
                "with 'before' the cells already read the context of their own position"
            )
        if options.attention == "none":
            for key in ("input_feeding", "window", "temporal"):
                if (value := getattr(options, key)) not in (False, "none"):
                    raise UserError(
                        f"config.model.{key}={value!r} needs config.model.attention, found 'none'"
                    )
        fields.check_shared_vocabulary(self, otherwise="give 'none'")
        D = self.d_model
        self.source_embedding = dense.embed(self.source_vocab_size, D)
        self.target_embedding = self.output_embedding = self.source_embedding
        if self.tied_embeddings == "none":
            self.target_embedding = dense.embed(self.target_vocab_size, D)
            self.output_embedding = dense.embed(self.target_vocab_size, D)
        norm = {"normalised": self.cell_norm == "layer"}
        cell = functools.partial(Cell, self.cell, forget_bias=self.forget_bias, **norm)
        half = lambda: nn.RNN(cell(features=D // 2))
        both = lambda: nn.Bidirectional(half(), half())
        layer = both if self.bidirectional else lambda: nn.RNN(cell(features=D))
        self.encoder = [layer() for _ in range(self.num_layers)]
        # The initial carry of each layer: (c, h) in an LSTM, h in other cells.
        first = lambda: (nn.Dense(D), nn.Dense(D)) if self.cell == "lstm" else nn.Dense(D)
        self.first = tuple(first() for _ in range(self.num_layers))
        self.keys = nn.Dense(D, use_bias=False) if options.attention == "additive" else None
        # The scan is over T, axis 2 of [B, W, T, D] and axis 0 of the positions. All positions
        # read the same memory.
        steps = over_positions(DecoderStep, in_axes=(2, 0, nn.broadcast), out_axes=2)
        self.decoder = steps(D, cell, options)
        self.dropout = nn.Dropout(self.dropout_rate)

    def __call__(self, *inputs: Array, train: bool, **named_inputs: Array) -> Array:
        """Returns logits [B, T, V]; the inputs are those of `hidden`."""
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
        """Returns the decoder's outputs [B, T, D]; the inputs are those of `Transformer.hidden`."""
        memory = self.encode(source, source_positions, source_segments, train=train)
        memory, state = self.prepare(memory, source_segments > 0, target.shape[1], 1)
        x_BWTD = self.dropout(self.target_embedding(target), deterministic=not train)[:, None]
        positions_T = jnp.arange(target.shape[1])
        _, (h_BWTD, weights) = self.decoder(state, x_BWTD, positions_T, memory)
        self.sow("intermediates", "attention", weights)  # each [B, W, T, S] with W = 1 as the head
        return self.dropout(h_BWTD[:, 0], deterministic=not train)

    def logits(self, x_BTD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
        """Returns logits [B, T, V] of the decoder's outputs."""
        return dense.logits(x_BTD, self.output_embedding.embedding, dtype)

    def encode(
        self, source: Array, source_positions: Array, source_segments: Array, *, train: bool
    ) -> Array:
        """Returns the memory [B, S, D], the states, those of two directions concatenated."""
        x_BSD = self.dropout(self.source_embedding(source), deterministic=not train)
        # With lengths, so that the backward direction starts at the last piece, not in padding.
        for layer in self.encoder:
            x_BSD = layer(x_BSD, seq_lengths=(source_segments > 0).sum(axis=1))
        return x_BSD

    def prepare(self, memory: Array, memory_mask: Array, room: int, num_beams: int) -> tuple:
        """Returns (keys, values, mask) of the source, and the state before the first position.

        The state is computed from each direction's last state: for S pieces, forward at position
        S - 1, backward at position 0.
        """
        last_B = jnp.maximum(memory_mask.sum(axis=1) - 1, 0)  # skips padding
        # With two directions, forward states are the first D / 2 channels, backward the rest.
        size = self.d_model // 2 if self.bidirectional else self.d_model
        forward_B1D = jnp.take_along_axis(memory[..., :size], last_B[:, None, None], axis=1)
        ends_B1D = jnp.concatenate([forward_B1D, memory[:, :1, size:]], axis=-1)
        ends_BWD = jnp.repeat(ends_B1D, num_beams, axis=1)
        carries = jax.tree.map(lambda layer: jnp.tanh(layer(ends_BWD)), self.first)
        keys_BSD = self.keys(memory) if self.keys else memory
        # One head: keys [B, S, D] become [B, H = 1, D, S], values [B, H = 1, S, D].
        keys_values = keys_BSD.swapaxes(1, 2)[:, None], memory[:, None]
        options, (B, W, D) = self.attention_options, ends_BWD.shape
        log_sums_BWS = jnp.zeros((B, W, memory.shape[1])) if options.temporal else None
        past_BWPD = jnp.zeros((B, W, room, D)) if options.decoder_attention else None
        state = State(carries, jnp.zeros_like(ends_BWD), log_sums_BWS, past_BWPD)
        return (*keys_values, memory_mask[:, None]), state

    def step(self, tokens: Array, position: Array, memory: tuple, cache: State) -> tuple:
        """Returns logits [B, W, T, V] after each of the tokens [B, W, T], and the next state."""
        x_BWTD = self.target_embedding(tokens)
        positions_T = position + jnp.arange(tokens.shape[2])
        cache, (h_BWTD, _) = self.decoder(cache, x_BWTD, positions_T, memory)
        B, W, T, D = h_BWTD.shape
        # Beams and positions are one axis for the output matrix.
        return self.logits(h_BWTD.reshape(B, W * T, D)).reshape(B, W, T, -1), cache

    @staticmethod
    def attention_weights(sown: dict) -> dict[str, Array]:
        """Returns the weights [L = 1, B, H = 1, T, S] by kind, if the options have the kind.

        'cross' is over the source, 'decoder' over the decoder's own positions.
        """
        return {name: weights[None] for name, weights in sown["attention"][0].items()}

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step: three times those of the forward pass."""
        D, gates, carry = self.d_model, GATES[self.cell], 2 if self.cell == "lstm" else 1
        options, directions = self.attention_options, 2 if self.bidirectional else 1
        encoder = self.num_layers * gates * D * (D + D // directions)
        decoder = self.num_layers * gates * 2 * D * D
        if options.attention != "none":
            # Products with D x D matrices: query and key in 'additive', W in 'general'; `mix` of
            # two vectors, or three if attention is before the cells; the context or the fed vector
            # in the first cell; the place of a 'predictive' window.
            squares = {"additive": 2, "general": 1}.get(options.attention, 0)
            squares += 3 if options.attention_place == "before" else 2
            squares += gates * (options.attention_place == "before" or options.input_feeding)
            decoder += squares * D * D + (options.window == "predictive") * (D + 1) * D
            # Scores and context; 'location' scores a fixed number of positions.
            scored = options.location_positions if options.attention == "location" else length
            decoder += (scored + length) * D
        if options.decoder_attention:
            # The query, and `mix` of one more vector, or of two without attention; scores, sum.
            decoder += (3 if options.attention == "none" else 2) * D * D + 2 * length * D
        position = encoder + decoder + D * self.target_vocab_size
        return 3 * 2 * rows * (length * position + self.num_layers * carry * D * D)
