"""Score functions of attention (paper 3.2.1): how well a query and a key match."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense

Array = jax.Array
SCORES = ("scaled_dot", "dot", "general", "additive", "cosine")


class Score(nn.Module):
    """Scores every key for every query, in float32.

    `kind` is one of SCORES:

        scaled_dot    q . k / sqrt(K)        Vaswani et al. 2017, equation 1
        dot           q . k                  Luong et al. 2015, section 3.1
        general       q . W k                Luong et al. 2015, section 3.1
        additive      v . tanh(q + k)        Bahdanau et al. 2015, appendix A.1.2, whose W and U
                                             project q and k before; so is Luong's concat
        cosine        g q . k / (|q| |k|)    Henry et al. 2020, equation 5
    """

    kind: str

    @nn.compact
    def __call__(self, q_BTHK: Array, k_BHKS: Array) -> Array:
        """Returns scores_BHTS."""
        (H, K), dtype = q_BTHK.shape[-2:], q_BTHK.dtype
        if self.kind == "additive":
            v_HK = self.param("v", dense.normal(K**-0.5), (H, K)).astype(dtype)
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
        # Not rounded to the inputs' type, as the kernels' product is: the softmax takes float32.
        return jnp.einsum("BTHK,BHKS->BHTS", q_BTHK, k_BHKS, preferred_element_type=jnp.float32)


def _unit(x: Array, axis: int) -> Array:
    """Returns vectors of length 1; the zero vector stays, with a finite gradient."""
    return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(axis=axis, keepdims=True), 1e-12))
