"""Other residual connections, and none."""

from collections.abc import Callable

import flax.linen as nn
from jax import Array

from transformer.models.layers import Residual


class NoResidual(Residual):
    """Norm(Dropout(Sublayer(x))), without the residual x."""

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        return self.normalise(self.drop(sublayer(x_BTD), train=train))


class ReZero(Residual):
    """x + alpha * Dropout(Sublayer(x)), without a norm (Bachlechner et al. 2020, equation 2).

    Each sub-layer has its own alpha, initially 0, so that a layer starts as the identity.
    """

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        alpha = self.param("alpha", nn.initializers.zeros, ()).astype(x_BTD.dtype)
        return x_BTD + alpha * self.drop(sublayer(x_BTD), train=train)
