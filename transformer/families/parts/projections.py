"""Self-attention with fewer projections than three, to see what they are for."""

import flax.linen as nn
import jax

from transformer.errors import UserError, check_value
from transformer.models.attention import SelfAttention
from transformer.models.cache import KeysValues
from transformer.models.layer_options import head_sizes

Array = jax.Array


class Shared(SelfAttention):
    """Queries and keys are one projection ('qk'), or values, too ('qkv').

    With 'identity' all three are the input itself, D / H channels a head.
    """

    projections: str

    def setup(self) -> None:
        super().setup()
        options, (K, C) = self.options, head_sizes(self.options)
        check_value("model.mixer.projections", self.projections, ("qk", "qkv", "identity"))
        where = f"config.model.mixer: shared(projections={self.projections!r})"
        if self.projections != "qk" and K != C:
            raise UserError(
                f"{where} needs keys and values of one size, found key_size={K} and value_size={C}"
            )
        if self.projections == "identity" and K * options.num_heads != options.d_model:
            raise UserError(
                f"{where} needs heads that divide d_model between them, found "
                f"{options.num_heads} heads of {K} and d_model={options.d_model}"
            )

    def project(self, memory_BSD: Array, positions_BS: Array | None = None) -> KeysValues:
        x_BSHK = self._projected(memory_BSD)
        k_BSHK = self.positions.heads(x_BSHK, positions_BS)
        v_BSHC = self.value(memory_BSD) if self.projections == "qk" else x_BSHK
        return k_BSHK.transpose(0, 2, 3, 1), v_BSHC.swapaxes(1, 2)

    def project_queries(self, queries_BTD: Array, positions_BT: Array) -> Array:
        return self.positions.heads(self._projected(queries_BTD), positions_BT)

    def _projected(self, x_BTD: Array) -> Array:
        if self.projections == "identity":
            return x_BTD.reshape(*x_BTD.shape[:-1], self.options.num_heads, -1)
        return self.query(x_BTD)

    @nn.nowrap
    def multiply_adds(self, length: int) -> int:
        options, (K, C) = self.options, head_sizes(self.options)
        # Of the projections of values, queries and keys. That of queries is also that of keys: it
        # is written twice, and XLA computes it once.
        none = {"qk": 0, "qkv": C, "identity": C + 2 * K}[self.projections]
        return super().multiply_adds(length) - options.d_model * options.num_heads * none
