"""Attention (paper 3.2), and its score functions: how well a query and a key match."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense, positions

Array = jax.Array
SCORES = ("scaled_dot", "dot", "general", "additive", "cosine")
# keys_BHKS and values_BHSC, laid out as the two products of attention read them: otherwise XLA
# would transpose a memory or a KV cache at each step of decoding, 3 to 8 times slower on CPUs.
KeysValues = tuple[Array, Array]


class View(NamedTuple):
    """Which keys each query may attend to, and where queries and keys stand in their sentences."""

    mask_BTS: Array  # bool; [B, 1, S] is one for all queries
    # int; read by relative positions only.
    query_positions_BT: Array
    key_positions_BS: Array


def same_segment(query_segments_BT: Array, key_segments_BS: Array) -> Array:
    """Returns the mask, bool [B, T, S], of the keys in the same sentence pair as the query.

    Segments 1 1 2 0 on both sides give 1100 1100 0010 0000: positions 0 and 1 see each other,
    position 2 sees itself, padding (0) neither sees nor is seen.
    """
    same_BTS = query_segments_BT[:, :, None] == key_segments_BS[:, None, :]
    return same_BTS & (key_segments_BS > 0)[:, None, :]


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
    context_BHTC = dense.dot_general(dropped_BHTS, values_BHSC, (((3,), (2,)), ((0, 1), (0, 1))))
    context_BTHC = context_BHTC.swapaxes(1, 2)
    if extra_context is not None:
        context_BTHC += extra_context(dropped_BHTS)
    return context_BTHC, weights_BHTS


class Score(nn.Module):
    """Scores every key for every query, in float32; `kind` is one of SCORES.

    scaled_dot    q . k / sqrt(K)        Vaswani et al. 2017, equation 1
    dot           q . k                  Luong et al. 2015, section 3.1
    general       q . W k                Luong et al. 2015, section 3.1
    additive      v . tanh(q + k)        Bahdanau et al. 2015, appendix A.1.2, whose W and U project
                                         q and k before; so is Luong's concat
    cosine        g q . k / (|q| |k|)    Henry et al. 2020, equation 5
    """

    kind: str

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        """Returns scores_BHTS."""
        (H, K), dtype = q_BTHK.shape[-2:], q_BTHK.dtype
        if self.kind == "additive":
            v_HK = self.param("v", nn.initializers.normal(K**-0.5), (H, K)).astype(dtype)
            # Broadcast: [B, H, T, 1, K] + [B, H, 1, S, K], every query with every key.
            sums_BHTSK = q_BTHK.swapaxes(1, 2)[:, :, :, None] + k_BHKS.swapaxes(2, 3)[:, :, None]
            return jnp.einsum("BHTSK,HK->BHTS", jnp.tanh(sums_BHTSK), v_HK).astype(jnp.float32)
        if self.kind == "scaled_dot":
            q_BTHK = q_BTHK * K**-0.5
        elif self.kind == "general":
            w_HKJ = self.param("w", nn.initializers.lecun_normal(batch_axis=0), (H, K, K))
            q_BTHK = jnp.einsum("BTHK,HKJ->BTHJ", q_BTHK, w_HKJ.astype(dtype))
        elif self.kind == "cosine":
            # The paper's g, one for all heads, begins at log2(L^2 - L) for texts of length L. With
            # sqrt(K), scores of random vectors have the variance 1, as those of 'scaled_dot'.
            g_H1 = self.param("g", nn.initializers.constant(K**0.5), (H, 1)).astype(dtype)
            q_BTHK = g_H1 * _unit(q_BTHK, axis=-1)
            k_BHKS = _unit(k_BHKS, axis=-2)
        # Not dense.dot_general, which rounds to the inputs' type: the softmax takes float32 scores.
        return jnp.einsum("BTHK,BHKS->BHTS", q_BTHK, k_BHKS, preferred_element_type=jnp.float32)


def _unit(x: Array, axis: int) -> Array:
    """Returns vectors of length 1; the zero vector stays, with a finite gradient."""
    return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(axis=axis, keepdims=True), 1e-12))


class MultiHeadAttention(nn.Module):
    """Computes attention in several heads (paper 3.2); its scores are those of `Score`.

    `project` computes the keys and values, a call attends to them; decoding keeps them in between.
    The weights [B, H, T, S] are sown as 'attention' into 'intermediates', if these are mutable.
    """

    d_model: int
    num_heads: int
    key_size: int
    value_size: int
    score: str  # 'scaled_dot' is the paper's, equation 1
    positions: str  # 'rotary' or 'shaw' (positions.py); other kinds leave attention as it is
    max_distance: int  # of 'shaw'
    use_bias: bool
    dropout_rate: float
    dtype: jnp.dtype

    def setup(self) -> None:
        projection = functools.partial(
            nn.DenseGeneral,
            use_bias=self.use_bias,
            kernel_init=dense.glorot_uniform,
            dtype=self.dtype,
            dot_general=dense.dot_general,
        )
        self.query = projection(features=(self.num_heads, self.key_size))
        self.key = projection(features=(self.num_heads, self.key_size))
        self.value = projection(features=(self.num_heads, self.value_size))
        self.score_function = Score(self.score)
        self.output = projection(features=self.d_model, axis=(-2, -1))
        self.dropout = dense.Dropout(rate=self.dropout_rate)
        if self.positions == "shaw":
            H, K, C, R = self.num_heads, self.key_size, self.value_size, 2 * self.max_distance + 1
            # A table a head, as in the paper's base model (4.1); its section 3.3 shares one.
            normal = nn.initializers.normal
            self.distance_keys = self.param("distance_keys", normal(K**-0.5), (H, K, R))
            self.distance_values = self.param("distance_values", normal(C**-0.5), (H, R, C))

    def project(self, memory_BSD: Array, positions_BS: Array | None = None) -> KeysValues:
        """Projects a memory [B, S, D] to keys_BHKS and values_BHSC.

        Rotary keys are rotated here, before they are cached: they need the memory's positions.
        """
        k_BSHK, v_BSHC = self.key(memory_BSD), self.value(memory_BSD)
        if self.positions == "rotary":
            k_BSHK = positions.rotate(k_BSHK, positions_BS)
        # [B, S, H, K] -> [B, H, K, S] and [B, S, H, C] -> [B, H, S, C]: see KeysValues.
        return k_BSHK.transpose(0, 2, 3, 1), v_BSHC.swapaxes(1, 2)

    def __call__(
        self, queries_BTD: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> Array:
        """Attends to the keys where the view's mask is True, and returns [B, T, D]."""
        k_BHKS, v_BHSC = keys_values
        q_BTHK, values_of_distances = self.query(queries_BTD), None
        if self.positions == "rotary":
            q_BTHK = positions.rotate(q_BTHK, view.query_positions_BT)
        scores_BHTS = self.score_function(q_BTHK, k_BHKS)
        if self.positions == "shaw":
            _, queries_BT, keys_BS = view
            rows_BTS = positions.distance_rows(queries_BT, keys_BS, self.max_distance)
            scores_BHTS += positions.take_distances(self._distance_scores(q_BTHK), rows_BTS)
            values_of_distances = functools.partial(self._distance_values, rows_BTS=rows_BTS)
        dropout = functools.partial(self.dropout, deterministic=not train)
        context_BTHC, weights_BHTS = attend(
            scores_BHTS, view.mask_BTS, v_BHSC, dropout, values_of_distances
        )
        self.sow("intermediates", "attention", weights_BHTS)
        return self.output(context_BTHC)

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
    are both. `sown` is the collection 'intermediates'. Keys after a decoder's query have weight 0.
    """
    kinds = {
        "encoder": ("encoder", "self_attention"),
        "decoder": ("decoder", "self_attention"),
        "cross": ("decoder", "cross_attention"),
    }
    # Flax sows a tuple with one entry per call: [0] is the only one.
    weights = {}
    for kind, (half, part) in kinds.items():
        layers = [sown[half][f"layers_{i}"] for i in range(len(sown.get(half, ())))]
        if layers and part in layers[0]:
            weights[kind] = jnp.stack([layer[part]["attention"][0] for layer in layers])
    return weights
