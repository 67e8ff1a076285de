"""A mixture of experts as feed-forward network (Fedus, Zoph and Shazeer 2021, "Switch
Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity")."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import check_value
from transformer.models import dense
from transformer.models.layers import FeedForward
from transformer.models.masks import View


class Experts(FeedForward):
    """Routes each token to one of E feed-forward networks, the experts (equations 1 to 3).

    In training an expert has a limited capacity for tokens of a row. Later tokens get zeros, so
    that only the residual connection passes them on. Padding has no expert.

    Not as in the paper: capacity and balance are per row, not per batch, so that rows do not depend
    on each other or on the number of devices. Texts of a packed row share its capacity, earlier
    texts first. In inference an expert has room for all tokens, at E times the work, so that a
    decoding step has the output of a call. The router's input is not jittered.
    """

    count: int = 8  # E
    capacity: float = 1.25  # of all experts together, as a multiple of a row's length
    balance: float = 0.01  # alpha, the weight of the loss that is minimal for equal use

    def setup(self) -> None:
        check_value("model.feed_forward.count", self.count, "at least 1")
        check_value("model.feed_forward.capacity", self.capacity, "above 0")
        check_value("model.feed_forward.balance", self.balance, "at least 0")

    @nn.compact
    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        T, E = x_BTD.shape[1], self.count
        router = dense.linear(jnp.float32)(E, use_bias=False, name="router")
        p_BTE = nn.softmax(router(x_BTD))
        chosen_BTE = nn.one_hot(p_BTE.argmax(axis=-1), E)
        if view.segments_BT is not None:
            is_real_BT1 = (view.segments_BT > 0)[..., None]
            p_BTE, chosen_BTE = p_BTE * is_real_BT1, chosen_BTE * is_real_BT1
        self.sow("losses", "balance", self.balance * imbalance(p_BTE, chosen_BTE))

        # An expert has C places, which its tokens take in the order of the row: choices 0 1 0 0
        # take places 0 0 1 2. With C = 2 the last token has no place.
        C = min(T, math.ceil(T / E * self.capacity)) if train else T
        places_BTE = (jnp.cumsum(chosen_BTE, axis=1) - 1).astype(jnp.int32)
        placed_BTEC = (chosen_BTE[..., None] * nn.one_hot(places_BTE, C)).astype(self.dtype)
        x_BECD = dense.einsum("BTEC,BTD->BECD", placed_BTEC, x_BTD)
        # Each expert has its own params, arrays [E, ...], and its own dropout.
        apply = nn.vmap(
            lambda expert, x_BCD: expert(x_BCD, view, train=train),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=1,
            out_axes=1,
        )
        y_BECD = apply(FeedForward(self.options, self.dtype, name="experts"), x_BECD)
        y_BTD = dense.einsum("BTEC,BECD->BTD", placed_BTEC, y_BECD)
        return (p_BTE.max(axis=-1, keepdims=True) * y_BTD).astype(self.dtype)

    @nn.nowrap
    def multiply_adds(self) -> int:
        """Returns the multiply-adds of the router and of one expert."""
        return self.options.d_model * self.count + super().multiply_adds()


def imbalance(p_BTE: Array, chosen_BTE: Array) -> Array:
    """Returns E * sum_i f_i P_i (equations 4 to 6) times the tokens of each row, [B].

    f_i is the share of the row's tokens that chose expert i, and P_i is its mean probability. The
    minimum is 1 per token. It is a sum over tokens, as the loss is, even if a row has only one
    target, as in classification.
    """
    counts_BE, sums_BE = chosen_BTE.sum(axis=1), p_BTE.sum(axis=1)
    tokens_B = jnp.maximum(counts_BE.sum(axis=1), 1)
    return p_BTE.shape[-1] * (counts_BE * sums_BE).sum(axis=1) / tokens_B
