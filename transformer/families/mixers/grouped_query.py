"""Self-attention in which groups of query heads share a head of keys and values (Ainslie et al.
2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints")."""

import jax.numpy as jnp
from jax import Array

from transformer.errors import UserError, check_value
from transformer.models.attention import SelfAttention
from transformer.models.cache import KeysValues
from transformer.models.masks import View


class GroupedQuery(SelfAttention):
    """Attends with H heads of queries, in G groups, to G heads of keys and values (section 2.2).

    Group g has the M = H / G heads from g * M on. G = 1 is multi-query attention (Shazeer 2019,
    "Fast Transformer Decoding: One Write-Head is All You Need", section 3). The KV cache is M times
    smaller than that of `attention`, and a step of decoding reads M times less.

    Each group has its own params of positions and score functions: tables of 'shaw' and 't5', and
    G slopes of 'alibi' (with G = 1 only the flattest, 2^-8). Not as in the paper: it changes the
    decoder's self-attention and cross-attention. Here self-attention changes in both stacks, or in
    the decoder alone by config.model.decoder_mixer.
    """

    num_key_heads: int  # G

    def setup(self) -> None:
        num_heads = self.options.num_heads
        check_value("model.mixer.num_key_heads", self.num_key_heads, "at least 1")
        if num_heads % self.num_key_heads:
            raise UserError(
                f"config.model.mixer.num_key_heads={self.num_key_heads} must divide "
                f"config.model.num_heads={num_heads}"
            )
        super().setup()

    key_heads = property(lambda self: self.num_key_heads)

    def attend_to(
        self, q_BTHK: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> tuple[Array, Array]:
        """Returns (context_BTHC, weights_BHTS) of queries of H heads over keys of G heads.

        A group's M queries at a position become M queries of one head, so that keys and values are
        never repeated.
        """
        (B, T, H, K), G = q_BTHK.shape, self.num_key_heads
        M = H // G
        # [B, T, H, K] -> [B, T, G, M, K] -> [B, M, T, G, K] -> [B, Q, G, K]: head g * M + m at t is
        # query m * T + t of head g. With M = 2 and T = 3, head 1 at 0 is query 3 of head 0.
        q_BQGK = q_BTHK.reshape(B, T, G, M, K).transpose(0, 3, 1, 2, 4).reshape(B, M * T, G, K)
        # A mask [B, 1, S] serves all queries unchanged.
        mask_BQS = jnp.tile(view.mask_BTS, (1, M if view.mask_BTS.shape[1] > 1 else 1, 1))
        positions_BQ = jnp.tile(view.query_positions_BT, (1, M))
        view = view._replace(mask_BTS=mask_BQS, query_positions_BT=positions_BQ)
        context_BQGC, weights_BGQS = super().attend_to(q_BQGK, keys_values, view, train=train)
        # [B, Q, G, C] -> [B, M, T, G, C] -> [B, T, G, M, C] -> [B, T, H, C].
        context = context_BQGC.reshape(B, M, T, G, -1).transpose(0, 2, 3, 1, 4)
        # [B, G, Q, S] -> [B, H, T, S] keeps the order: m * T + t of g is t of g * M + m.
        return context.reshape(B, T, H, -1), weights_BGQS.reshape(B, H, T, -1)
