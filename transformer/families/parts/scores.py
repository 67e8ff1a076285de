"""Other score functions of attention (paper 3.2.1): how well a query and a key match."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.attention import ScaledDot, dot

Array = jax.Array


class Dot(ScaledDot):
    """q . k (Luong et al. 2015, section 3.1)."""

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        return dot(q_BTHK, k_BHKS)


class General(ScaledDot):
    """q . W k (Luong et al. 2015, section 3.1)."""

    turns = False

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        H, K = q_BTHK.shape[-2:]
        w_HKJ = self.param("w", nn.initializers.lecun_normal(batch_axis=0), (H, K, K))
        return dot(jnp.einsum("BTHK,HKJ->BTHJ", q_BTHK, w_HKJ.astype(q_BTHK.dtype)), k_BHKS)

    @nn.nowrap
    def multiply_adds(self, num_heads: int, key_size: int) -> int:
        return num_heads * key_size**2


class Additive(ScaledDot):
    """v . tanh(q + k) (Bahdanau et al. 2015, appendix A.1.2, where W and U project q and k).

    Luong's concat is the same.
    """

    linear = turns = False

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        H, K = q_BTHK.shape[-2:]
        v_HK = self.param("v", dense.normal(K**-0.5), (H, K)).astype(q_BTHK.dtype)
        # Broadcast [B, H, T, 1, K] + [B, H, 1, S, K]: every query with every key.
        sums_BHTSK = q_BTHK.swapaxes(1, 2)[:, :, :, None] + k_BHKS.swapaxes(2, 3)[:, :, None]
        return jnp.einsum("BHTSK,HK->BHTS", jnp.tanh(sums_BHTSK), v_HK).astype(jnp.float32)


class Cosine(ScaledDot):
    """g q . k / (|q| |k|), with a learned g per head (Henry et al. 2020, equation 5)."""

    linear = False

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        H, K = q_BTHK.shape[-2:]
        # Not as in the paper, whose heads share a g, initially log2(L^2 - L) for texts of length L.
        # With sqrt(K), scores of random vectors have variance 1, as in 'scaled_dot'.
        g_H1 = self.param("g", nn.initializers.constant(K**0.5), (H, 1)).astype(q_BTHK.dtype)
        return dot(g_H1 * _unit(q_BTHK, axis=-1), _unit(k_BHKS, axis=-2))


class Normalised(ScaledDot):
    """LN(q) . LN(k) / sqrt(K) (Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion
    Parameters", section 2): LayerNorm over the components of a head, with scales shared by heads.
    """

    linear = turns = False

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        normalise = lambda x, axis, name: nn.LayerNorm(
            reduction_axes=axis, feature_axes=axis, use_bias=False, dtype=x.dtype, name=name
        )(x)
        return super().__call__(normalise(q_BTHK, -1, "query"), normalise(k_BHKS, -2, "key"))


def _unit(x: Array, axis: int) -> Array:
    """Returns unit vectors; a zero vector stays zero, with a finite gradient."""
    return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(axis=axis, keepdims=True), 1e-12))
