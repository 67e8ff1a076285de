"""Attention (paper 3.2): weighted sums of values, in several heads."""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import boxes, cache, dense, kernels
from transformer.models.cache import KeysValues, Queries, Slots
from transformer.models.layer_options import LayerOptions, head_sizes
from transformer.models.masks import View
from transformer.models.positions import Positions

Array = jax.Array


class ScaledDot(nn.Module):
    """Scores each key for each query: q . k / sqrt(K), summed in float32 (equation 1)."""

    linear = True  # score(q, k + a) = score(q, k) + score(q, a)
    turns = True  # rotating q and k by the same angle keeps the score

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        """Returns scores_BHTS."""
        return dot(q_BTHK * q_BTHK.shape[-1] ** -0.5, k_BHKS)

    @nn.nowrap
    def multiply_adds(self, num_heads: int, key_size: int) -> int:
        """Returns the multiply-adds of one query, besides q . k."""
        return 0


def dot(q_BTHK: Array, k_BHKS: Array) -> Array:
    """Returns the dot products of queries and keys, scores_BHTS."""
    # Kept in float32 for the softmax; the kernels' product rounds to the inputs' dtype.
    return jnp.einsum("BTHK,BHKS->BHTS", q_BTHK, k_BHKS, preferred_element_type=jnp.float32)


def attend(
    scores_BHTS: Array,
    mask_BTS: Array,
    values_BHSC: Array,
    dropout: Callable[[Array], Array],
    with_positions: Callable[[Array, Array], Array] = lambda context, weights: context,
) -> tuple[Array, Array]:
    """Returns (context_BTHC, weights_BHTS): sums of values, weighted by the softmax of the scores.

    The float32 softmax is over the keys where the mask is True. A query without any such key gets
    zeros and no gradient. The sum uses weights after `dropout`; the returned weights are before it.
    `with_positions` adds positions to the context, by the weights of the sum.
    """
    mask_BHTS = mask_BTS[:, None]
    # Masked scores are the lowest finite number, because a softmax of -inf alone is NaN, as is its
    # gradient. A fully masked query then has uniform weights; the second mask zeroes them.
    lowest = jnp.finfo(jnp.float32).min
    scores_BHTS = jnp.where(mask_BHTS, scores_BHTS.astype(jnp.float32), lowest)
    weights_BHTS = jnp.where(mask_BHTS, jax.nn.softmax(scores_BHTS, axis=-1), 0.0)
    dropped_BHTS = dropout(weights_BHTS).astype(values_BHSC.dtype)
    context_BHTC = dense.einsum("BHTS,BHSC->BHTC", dropped_BHTS, values_BHSC)
    return with_positions(context_BHTC.swapaxes(1, 2), dropped_BHTS), weights_BHTS


class MultiHeadAttention(nn.Module):
    """Computes attention in several heads (paper 3.2.2).

    `project` computes the keys and values, and a call attends to them. Decoding caches them. The
    weights [B, H, T, S] are sown as 'attention' into 'intermediates', if mutable; a fused kernel
    has no weights.
    """

    options: LayerOptions
    causal: bool  # whether the mask hides later keys
    dtype: jnp.dtype

    def setup(self) -> None:
        options = self.options
        G, (K, C) = self.key_heads, head_sizes(options)
        projection = dense.linear(self.dtype, nn.DenseGeneral, use_bias=options.attention_bias)
        self.query = projection(features=(options.num_heads, K))
        self.key, self.value = projection(features=(G, K)), projection(features=(G, C))
        self.score_function = boxes.part("score", options.score)()
        self.output = projection(features=options.d_model, axis=(-2, -1))
        self.dropout = dense.Dropout(rate=options.attention_dropout_rate)
        self.positions = self.make_positions()
        nn.share_scope(self, self.positions)  # params of positions stand beside the layer's

    def project(self, memory_BSD: Array, positions_BS: Array | None = None) -> KeysValues:
        """Projects a memory [B, S, D] to keys_BHKS and values_BHSC.

        Positions are applied to keys here, before they are cached.
        """
        k_BSHK = self.positions.heads(self.key(memory_BSD), positions_BS)
        # [B, S, H, K] -> [B, H, K, S] and [B, S, H, C] -> [B, H, S, C]: see KeysValues.
        return k_BSHK.transpose(0, 2, 3, 1), self.value(memory_BSD).swapaxes(1, 2)

    def project_queries(self, queries_BTD: Array, positions_BT: Array) -> Array:
        """Projects to q_BTHK and applies positions."""
        return self.positions.heads(self.query(queries_BTD), positions_BT)

    def __call__(
        self, queries_BTD: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> Array:
        """Attends to the keys where the view's mask is True, and returns [B, T, D]."""
        q_BTHK = self.project_queries(queries_BTD, view.query_positions_BT)
        fused_attention = kernels.chosen().fused_attention(self)  # may raise, even at init
        if fused_attention and train:
            context_BTHC = fused_attention(q_BTHK, keys_values, view.mask_BTS)
        else:
            context_BTHC, weights_BHTS = self.attend_to(q_BTHK, keys_values, view, train=train)
            self.sow("intermediates", "attention", weights_BHTS)
        return self.output(context_BTHC)

    def attend_to(
        self, q_BTHK: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> tuple[Array, Array]:
        """Returns (context_BTHC, weights_BHTS); queries and keys have equally many heads."""
        k_BHKS, v_BHSC = keys_values
        scores_BHTS = self.score_function(q_BTHK, k_BHKS)
        scores_BHTS = self.positions.scores(scores_BHTS, q_BTHK, self.score_function, view)
        dropout = functools.partial(self.dropout, deterministic=not train)
        with_positions = functools.partial(self.positions.context, view=view)
        return attend(scores_BHTS, view.mask_BTS, v_BHSC, dropout, with_positions)

    @property
    def key_heads(self) -> int:
        """The number of heads of keys and values, here that of queries."""
        return self.options.num_heads

    @nn.nowrap
    def multiply_adds(self, length: int) -> int:
        """Returns the multiply-adds of one position that attends to `length` others."""
        options = self.options
        H, (K, C) = options.num_heads, head_sizes(options)
        # Projections of queries, output, keys and values; then scores and weighted sums.
        projections = options.d_model * (H + self.key_heads) * (K + C)
        score = boxes.part("score", options.score)(parent=None).multiply_adds(H, K)
        return projections + (length + self.make_positions().keys) * H * (K + C) + score

    @nn.nowrap
    def make_positions(self) -> Positions:
        """Returns positions that do nothing, because two texts have no distance between them."""
        return Positions(self.options, parent=None)


class SelfAttention(MultiHeadAttention):
    """Attends from each position to the positions of its own sequence (paper 3.2.3)."""

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        keys_values = self.project(x_BTD, view.query_positions_BT)
        return super().__call__(x_BTD, keys_values, view, train=train)

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Slots:
        # Only the shapes of the keys and values are read, so XLA drops the products.
        positions_BT = jnp.zeros(x_BTD.shape[:2], jnp.int32)
        return cache.empty_slots(self.project(x_BTD, positions_BT), room, num_beams)

    def step(self, x_BQD: Array, queries: Queries, state: Slots) -> tuple[Array, Slots]:
        keys_values = self.project(x_BQD, queries.view.query_positions_BT)
        # Write before reading, because a token attends to itself, too.
        state = cache.write(state, queries.position * queries.num_beams, keys_values)
        return super().__call__(x_BQD, state, queries.view, train=False), state

    @nn.nowrap
    def make_positions(self) -> Positions:
        given = {"options": self.options, "causal": self.causal}
        return boxes.part("positions", self.options.positions, **given)(parent=None)
