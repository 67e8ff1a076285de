"""Other residual connections, and none."""

from collections.abc import Callable

import flax.linen as nn
import jax

from transformer.models.layers import Residual

Array = jax.Array


class Plain(Residual):
    """Norm(Dropout(Sublayer(x))), without x +."""

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        return self.normalise(self.drop(sublayer(x_BTD), train=train))
