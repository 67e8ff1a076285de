"""Self-attention with fewer than three projections, for ablations."""

import flax.linen as nn

from transformer.errors import UserError, check_value
from transformer.models.attention import SelfAttention
from transformer.models.layer_options import head_sizes


class Shared(SelfAttention):
    """Shares a projection among queries and keys ('qk'), or also values ('qkv').

    With 'identity' all three are the input itself, D / H channels per head.
    """

    projections: str

    def setup(self) -> None:
        super().setup()
        K, C = head_sizes(self.options)
        check_value("model.mixer.projections", self.projections, ("qk", "qkv", "identity"))
        where = f"config.model.mixer: shared(projections={self.projections!r})"
        if self.projections != "qk" and K != C:
            raise UserError(
                f"{where} needs keys and values of one size, found key_size={K} and value_size={C}"
            )
        if self.projections == "identity":
            if K * self.options.num_heads != self.options.d_model:
                raise UserError(
                    f"{where} needs heads that divide d_model between them, found "
                    f"{self.options.num_heads} heads of {K} and d_model={self.options.d_model}"
                )
            self.query = lambda x_BTD: x_BTD.reshape(*x_BTD.shape[:-1], self.options.num_heads, K)
        self.key = self.query
        if self.projections != "qk":
            self.value = self.query

    @nn.nowrap
    def multiply_adds(self, length: int) -> int:
        # XLA computes a shared projection once, though the code applies it for each use.
        K, C = head_sizes(self.options)
        maps = self.options.d_model * self.options.num_heads * (2 * K + C)
        return super().multiply_adds(length) - (maps if self.projections == "identity" else 0)
