"""Attention (section 3.2)."""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.dense import Dropout, dot_general, glorot_uniform

Array = jax.Array
# keys_BHKS, values_BHSC: so laid out, both products of attention read them as they lie. XLA would
# transpose a memory or a cache at each step of decoding (measured on CPUs: 3 to 8 times slower).
KeysValues = tuple[Array, Array]


def attend(
    scores_BHTS: Array, mask_BTS: Array, values_BHSC: Array, dropout: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """The values' sum, weighted by the softmax of the scores where the mask is true, in float32.

    Returns (context_BTHC, weights_BHTS). A query with nothing to attend to gets zeros and no
    gradient.
    """
    mask_BHTS = mask_BTS[:, None]
    lowest = jnp.finfo(jnp.float32).min
    scores_BHTS = jnp.where(mask_BHTS, scores_BHTS.astype(jnp.float32), lowest)
    weights_BHTS = jnp.where(mask_BHTS, jax.nn.softmax(scores_BHTS, axis=-1), 0.0)
    dropped_BHTS = dropout(weights_BHTS).astype(values_BHSC.dtype)
    # einsum("BHTS,BHSC->BHTC")
    context_BHTC = dense.dot_general(dropped_BHTS, values_BHSC, (((3,), (2,)), ((0, 1), (0, 1))))
    return context_BHTC.swapaxes(1, 2), weights_BHTS


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in several heads (paper 3.2.1 and 3.2.2).

    `project` gives keys and values of a memory, so that decoding can keep them; a call attends to
    them. The weights are sown as 'attention' [B, H, T, S] for whoever asks for mutable
    'intermediates'.
    """

    d_model: int
    num_heads: int
    key_size: int
    value_size: int
    use_bias: bool
    dropout_rate: float
    dtype: jnp.dtype

    def setup(self) -> None:
        dense = functools.partial(
            nn.DenseGeneral,
            use_bias=self.use_bias,
            kernel_init=glorot_uniform,
            dtype=self.dtype,
            dot_general=dot_general,
        )
        self.query = dense((self.num_heads, self.key_size))
        self.key = dense((self.num_heads, self.key_size))
        self.value = dense((self.num_heads, self.value_size))
        self.output = dense(self.d_model, axis=(-2, -1))
        self.dropout = Dropout(self.dropout_rate)

    def project(self, memory_BSD: Array) -> KeysValues:
        """The keys_BHKS and values_BHSC of a memory."""
        k_BSHK, v_BSHC = self.key(memory_BSD), self.value(memory_BSD)
        return k_BSHK.transpose(0, 2, 3, 1), v_BSHC.swapaxes(1, 2)

    def __call__(
        self, queries_BTD: Array, keys_values: KeysValues, mask_BTS: Array, *, train: bool
    ) -> Array:
        q_BTHK = self.query(queries_BTD) * self.key_size**-0.5
        k_BHKS, v_BHSC = keys_values
        scores_BHTS = jnp.einsum(
            "BTHK,BHKS->BHTS", q_BTHK, k_BHKS, preferred_element_type=jnp.float32
        )
        dropout = functools.partial(self.dropout, deterministic=not train)
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, v_BHSC, dropout)
        self.sow("intermediates", "attention", weights_BHTS)
        return self.output(context_BTHC)
