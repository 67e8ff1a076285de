"""A mixture of experts as feed-forward network (Fedus, Zoph and Shazeer 2021, "Switch
Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity")."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import check_value
from transformer.models import dense
from transformer.models.layers import FeedForward
from transformer.models.masks import View

Array = jax.Array


class Experts(FeedForward):
    """Sends each token to one of E feed-forward networks, which a router picks (equations 1 to 3).

    In training an expert has room for some tokens of a row only. Later ones get zeros: the residual
    connection alone passes them on. Padding goes to no expert.

    Departures: capacity and balance are of the tokens of a row, not of the batch, so that rows do
    not depend on each other, nor on how many devices share them; texts of one packed row share its
    capacity, the earlier ones first. In inference an expert has room for all tokens, so that a step
    of decoding has the output of a call: at E times the work. The router's input is not jittered.
    """

    count: int = 8  # E
    capacity: float = 1.25  # the room of all experts together, in lengths of a row
    balance: float = 0.01  # alpha, the weight of the loss that is least where all are used alike

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

        # The room of an expert is C places, which its tokens take in the order of the row: choices
        # 0 1 0 0 have the places 0 0 1 2. With C = 2 the last of them has none.
        C = min(T, math.ceil(T / E * self.capacity)) if train else T
        places_BTE = (jnp.cumsum(chosen_BTE, axis=1) - 1).astype(jnp.int32)
        placed_BTEC = chosen_BTE[..., None] * nn.one_hot(places_BTE, C)
        placed_BTEC = placed_BTEC.astype(self.dtype)
        x_BECD = dense.einsum("BTEC,BTD->BECD", placed_BTEC, x_BTD)
        # Each expert has params of its own, arrays [E, ...], and drops activations by itself.
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
        """Returns those of the router and of one expert: a token's work does not grow with E."""
        return self.options.d_model * self.count + super().multiply_adds()


def imbalance(p_BTE: Array, chosen_BTE: Array) -> Array:
    """Returns E * sum_i f_i P_i (equations 4 to 6) times the tokens of each row, [B].

    f_i is the share of the row's tokens that chose expert i, and P_i is its mean probability. The
    least is 1 a token. As the losses of tokens are summed, so is this: where a row has one target,
    as in classification, it counts as often as the row has tokens.
    """
    counts_BE, sums_BE = chosen_BTE.sum(axis=1), p_BTE.sum(axis=1)
    tokens_B = jnp.maximum(counts_BE.sum(axis=1), 1)
    return p_BTE.shape[-1] * (counts_BE * sums_BE).sum(axis=1) / tokens_B
