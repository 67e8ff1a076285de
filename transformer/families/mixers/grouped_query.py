"""Self-attention in which a group of query heads shares one head of keys and values (Ainslie et al.
2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints")."""

import jax
import jax.numpy as jnp

from transformer.errors import UserError, check_value
from transformer.models.attention import SelfAttention
from transformer.models.cache import KeysValues
from transformer.models.masks import View

Array = jax.Array


class GroupedQuery(SelfAttention):
    """Attends by H heads of queries, in G groups, to G heads of keys and values (section 2.2).

    Group g has the M = H / G heads from g * M on. G = 1 is multi-query attention (Shazeer 2019,
    "Fast Transformer Decoding: One Write-Head is All You Need", section 3). A KV cache is M times
    smaller than that of `attention`, and a step of decoding reads as much less.

    With relative positions or score functions that have params, each group has its own: tables of
    'shaw' and 't5', slopes of 'alibi' (G of them: with G = 1 only the flattest, 2^-8). Departure
    from the paper, which leaves encoders as they are but changes cross-attention: this is
    self-attention of whichever stack names it, of the decoder alone by config.model.decoder_mixer.
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

    @property
    def key_heads(self) -> int:
        return self.num_key_heads

    def attend_to(
        self, q_BTHK: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> tuple[Array, Array]:
        """Returns (context_BTHC, weights_BHTS) of queries of H heads over keys of G heads.

        The M queries of a group at one position become M queries of one head, so that keys and
        values are never repeated.
        """
        (B, T, H, K), G = q_BTHK.shape, self.num_key_heads
        M = H // G
        # [B, T, H, K] -> [B, T, G, M, K] -> [B, M, T, G, K] -> [B, Q, G, K]: head g * M + m at t is
        # query m * T + t of head g. With M = 2 and T = 3, head 1 at 0 is query 3 of head 0.
        q_BQGK = q_BTHK.reshape(B, T, G, M, K).transpose(0, 3, 1, 2, 4).reshape(B, M * T, G, K)
        # A mask [B, 1, S] is for all queries as it is.
        mask_BQS = jnp.tile(view.mask_BTS, (1, M if view.mask_BTS.shape[1] > 1 else 1, 1))
        positions_BQ = jnp.tile(view.query_positions_BT, (1, M))
        view = view._replace(mask_BTS=mask_BQS, query_positions_BT=positions_BQ)
        context_BQGC, weights_BGQS = super().attend_to(q_BQGK, keys_values, view, train=train)
        # [B, Q, G, C] -> [B, M, T, G, C] -> [B, T, G, M, C] -> [B, T, H, C].
        context = context_BQGC.reshape(B, M, T, G, -1).transpose(0, 2, 3, 1, 4)
        # [B, G, Q, S] -> [B, H, T, S] moves nothing: m * T + t of g is t of g * M + m.
        return context.reshape(B, T, H, -1), weights_BGQS.reshape(B, H, T, -1)
