"""Attention (paper 3.2): weighted sums of values, in several heads."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense, kernels, positions
from transformer.models.layer_options import LayerOptions, head_sizes
from transformer.models.scores import Score

Array = jax.Array
# keys_BHKS and values_BHSC, laid out as the two products of attention read them: otherwise XLA
# would transpose a memory or a KV cache at each step of decoding, 3 to 8 times slower on CPUs.
KeysValues = tuple[Array, Array]


class View(NamedTuple):
    """Which keys each query may attend to, and where queries and keys stand in their sentences."""

    mask_BTS: Array  # bool; [B, 1, S] is one for all queries
    # int; read by relative positions only.
    query_positions_BT: Array
    key_positions_BS: Array
    # int: the texts of a row are numbered from 1, 0 is padding. None: a row is one text, as in a
    # step of decoding. Read by mixers that have no use for a mask.
    segments_BT: Array | None = None


def same_segment(query_segments_BT: Array, key_segments_BS: Array) -> Array:
    """Returns the mask, bool [B, T, S], of the keys in the same sentence pair as the query.

    Segments 1 1 2 0 on both sides give 1100 1100 0010 0000: positions 0 and 1 see each other,
    position 2 sees itself, padding (0) neither sees nor is seen.
    """
    same_BTS = query_segments_BT[:, :, None] == key_segments_BS[:, None, :]
    return same_BTS & (key_segments_BS > 0)[:, None, :]


def self_view(positions_BT: Array, segments_BT: Array, *, causal: bool) -> View:
    """Returns the view of texts that are packed into rows, each of which sees itself only.

    Causal, a position sees no later one: segments 1 1 2 0 with positions 0 1 0 0 have the mask
    1000 1100 0010 0000.
    """
    mask_BTT = same_segment(segments_BT, segments_BT)
    if causal:
        mask_BTT &= positions_BT[:, :, None] >= positions_BT[:, None, :]
    return View(mask_BTT, positions_BT, positions_BT, segments_BT)


def attend(
    scores_BHTS: Array,
    mask_BTS: Array,
    values_BHSC: Array,
    dropout: Callable[[Array], Array],
    extra_context: Callable[[Array], Array] | None = None,
) -> tuple[Array, Array]:
    """Returns (context_BTHC, weights_BHTS): sums of values, weighted by the softmax of the scores.

    The softmax is over the keys where the mask is True, in float32; a query without such a key gets
    zeros and no gradient. `dropout` is applied to the weights of the sum, not to those returned.
    `extra_context`, if given, maps these weights to a further summand [B, T, H, C].
    """
    mask_BHTS = mask_BTS[:, None]
    # Masked scores are the lowest number, not -inf: a softmax of -inf alone is NaN, as is its
    # gradient. The second mask makes a fully masked query's uniform weights zeros.
    lowest = jnp.finfo(jnp.float32).min
    scores_BHTS = jnp.where(mask_BHTS, scores_BHTS.astype(jnp.float32), lowest)
    weights_BHTS = jnp.where(mask_BHTS, jax.nn.softmax(scores_BHTS, axis=-1), 0.0)
    dropped_BHTS = dropout(weights_BHTS).astype(values_BHSC.dtype)
    # einsum("BHTS,BHSC->BHTC")
    product = kernels.chosen().dot_general
    context_BHTC = product(dropped_BHTS, values_BHSC, (((3,), (2,)), ((0, 1), (0, 1))))
    context_BTHC = context_BHTC.swapaxes(1, 2)
    if extra_context is not None:
        context_BTHC += extra_context(dropped_BHTS)
    return context_BTHC, weights_BHTS


class MultiHeadAttention(nn.Module):
    """Computes attention in several heads (paper 3.2); its scores are those of `Score`.

    `project` computes the keys and values, a call attends to them; decoding keeps them in between.
    The weights [B, H, T, S] are sown as 'attention' into 'intermediates', if these are mutable; in
    training by a fused kernel there are none.

    With `options.shared_projections` queries and keys are one projection ('qk'), or values, too
    ('qkv'); with 'identity' all three are the input itself, D / H channels a head. To see what the
    paper's three projections are for.
    """

    options: LayerOptions
    causal: bool  # whether queries see no later keys, as the mask says
    dtype: jnp.dtype

    def setup(self) -> None:
        options, H, (K, C) = self.options, self.key_heads, head_sizes(self.options)
        projection = dense.linear(self.dtype, nn.DenseGeneral, use_bias=options.attention_bias)
        shared = options.shared_projections
        in_heads = lambda x_BTD: x_BTD.reshape(*x_BTD.shape[:-1], -1, K)
        queries = projection(features=(options.num_heads, K))
        self.query = in_heads if shared == "identity" else queries
        self.key = self.query if shared else projection(features=(H, K))
        self.value = self.query if shared in ("qkv", "identity") else projection(features=(H, C))
        self.score_function = Score(options.score)
        self.output = projection(features=options.d_model, axis=(-2, -1))
        self.dropout = dense.Dropout(rate=options.attention_dropout_rate)
        if options.positions == "shaw":
            R = 2 * options.max_distance + 1
            # A table a head, as in the paper's base model (4.1); its section 3.3 shares one.
            normal = dense.normal
            self.distance_keys = self.param("distance_keys", normal(K**-0.5), (H, K, R))
            self.distance_values = self.param("distance_values", normal(C**-0.5), (H, R, C))
        elif options.positions == "t5":
            # Departure from T5, whose layers share the first one's table.
            shape = H, positions.T5_BUCKETS
            self.distance_bias = self.param("distance_bias", dense.normal(0.02), shape)

    def project(self, memory_BSD: Array, positions_BS: Array | None = None) -> KeysValues:
        """Projects a memory [B, S, D] to keys_BHKS and values_BHSC.

        Rotary keys are rotated here, before they are cached: they need the memory's positions.
        """
        k_BSHK, v_BSHC = self.key(memory_BSD), self.value(memory_BSD)
        if self.options.positions == "rotary":
            k_BSHK = positions.rotate(k_BSHK, positions_BS)
        # [B, S, H, K] -> [B, H, K, S] and [B, S, H, C] -> [B, H, S, C]: see KeysValues.
        return k_BSHK.transpose(0, 2, 3, 1), v_BSHC.swapaxes(1, 2)

    def project_queries(self, queries_BTD: Array, positions_BT: Array) -> Array:
        """Projects to q_BTHK; rotary queries are rotated by their positions."""
        q_BTHK = self.query(queries_BTD)
        if self.options.positions == "rotary":
            return positions.rotate(q_BTHK, positions_BT)
        return q_BTHK

    def __call__(
        self, queries_BTD: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> Array:
        """Attends to the keys where the view's mask is True, and returns [B, T, D]."""
        q_BTHK = self.project_queries(queries_BTD, view.query_positions_BT)
        fused_attention = kernels.chosen().fused_attention(self.options)
        if fused_attention and train:
            context_BTHC = fused_attention(q_BTHK, keys_values, view.mask_BTS)
        else:
            context_BTHC, weights_BHTS = self.attend(q_BTHK, keys_values, view, train=train)
            self.sow("intermediates", "attention", weights_BHTS)
        return self.output(context_BTHC)

    def attend(
        self, q_BTHK: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> tuple[Array, Array]:
        """Returns (context_BTHC, weights_BHTS) of queries over keys with as many heads."""
        k_BHKS, v_BHSC = keys_values
        _, queries_BT, keys_BS, _ = view
        scores_BHTS, values_of_distances = self.score_function(q_BTHK, k_BHKS), None
        kind, max_distance = self.options.positions, self.options.max_distance
        if kind == "shaw":
            rows_BTS = positions.distance_rows(queries_BT, keys_BS, max_distance)
            scores_BHTS += positions.take_distances(self._distance_scores(q_BTHK), rows_BTS)
            values_of_distances = functools.partial(self._distance_values, rows_BTS=rows_BTS)
        elif kind == "alibi":
            scores_BHTS += positions.alibi(queries_BT, keys_BS, q_BTHK.shape[2])
        elif kind == "t5":
            rows_BTS = positions.t5_buckets(queries_BT, keys_BS, max_distance, self.causal)
            # [H, R] -> [H, B, T, S] -> [B, H, T, S].
            scores_BHTS += jnp.take(self.distance_bias, rows_BTS, axis=1).swapaxes(0, 1)
        dropout = functools.partial(self.dropout, deterministic=not train)
        return attend(scores_BHTS, view.mask_BTS, v_BHSC, dropout, values_of_distances)

    @property
    def key_heads(self) -> int:
        """The number of heads of keys and values: here as many as of queries."""
        return self.options.num_heads

    @nn.nowrap
    def multiply_adds(self, length: int) -> int:
        """Returns the multiply-adds of one position that attends to `length` others."""
        options, H, (K, C) = self.options, self.options.num_heads, head_sizes(self.options)
        # Projections of queries and output, of keys and values, and the position's scores and sums.
        projections = options.d_model * (H + self.key_heads) * (K + C)
        if options.shared_projections == "identity":
            projections = options.d_model * H * C
        # Distances are scored and summed like keys; the general score's W is a product a head.
        keys = length + (2 * options.max_distance + 1 if options.positions == "shaw" else 0)
        return projections + keys * H * (K + C) + H * K * K * (options.score == "general")

    def _distance_scores(self, q_BTHK: Array) -> Array:
        """Returns scores_BHTR: each distance is scored as a key (Shaw et al. 2018, equation 5)."""
        keys_HKR = self.distance_keys.astype(q_BTHK.dtype)
        # For each row: XLA on CPUs has no bfloat16 product without the batch dimension of k_BHKS.
        keys_BHKR = jnp.broadcast_to(keys_HKR, (len(q_BTHK), *keys_HKR.shape))
        return self.score_function(q_BTHK, keys_BHKR)

    def _distance_values(self, weights_BHTS: Array, rows_BTS: Array) -> Array:
        """Returns the weighted sum [B, T, H, C] of the distances' values (equation 3)."""
        values_HRC = self.distance_values.astype(weights_BHTS.dtype)
        # Summed in float32: many keys may be at the farthest distance.
        weights_BHTS = weights_BHTS.astype(jnp.float32)
        weights_BHTR = positions.sum_distances(weights_BHTS, rows_BTS, values_HRC.shape[1])
        return jnp.einsum("BHTR,HRC->BTHC", weights_BHTR.astype(values_HRC.dtype), values_HRC)


def stacked_weights(sown: dict) -> dict[str, Array]:
    """Returns the attention weights of a model by kind, stacked over its layers.

    'encoder' [L, B, H, S, S], 'decoder' [L, B, H, T, T], and 'cross' [L, B, H, T, S] where there
    are both. `sown` is the collection 'intermediates'. Keys after a decoder's query have weight 0,
    as have all keys of a layer whose mixer sows no weights, below one that does.
    """
    kinds = {
        "encoder": ("encoder", "self_attention"),
        "decoder": ("decoder", "self_attention"),
        "cross": ("decoder", "cross_attention"),
    }
    # Flax sows a tuple with one entry per call: [0] is the only one.
    weights = {}
    for kind, (half, part) in kinds.items():
        by_layer = {
            int(name.removeprefix("layers_")): layer[part]["attention"][0]
            for name, layer in sown.get(half, {}).items()
            if part in layer
        }
        if by_layer:
            zeros = jnp.zeros_like(next(iter(by_layer.values())))
            layers = range(max(by_layer) + 1)
            weights[kind] = jnp.stack([by_layer.get(i, zeros) for i in layers])
    return weights
