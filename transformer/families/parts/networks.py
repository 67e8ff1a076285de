"""Feed-forward networks with other activations, gated, and none."""

import flax.linen as nn
from jax import Array

from transformer.errors import check_value
from transformer.models import dense
from transformer.models.layers import FeedForward


class Gelu(FeedForward):
    """With Gaussian error linear units (Hendrycks and Gimpel 2016), as in BERT."""

    activate = staticmethod(dense.gelu)


class GeluTanh(FeedForward):
    """With GPT-2's approximation of GELU by tanh."""

    activate = staticmethod(nn.gelu)


class Silu(FeedForward):
    """With x * sigmoid(x), also called swish (Ramachandran, Zoph and Le 2017)."""

    activate = staticmethod(nn.silu)


class Sigmoid(FeedForward):
    """With sigmoids."""

    activate = staticmethod(nn.sigmoid)


ACTIVATIONS = {"relu": nn.relu, "gelu": dense.gelu, "silu": nn.silu, "sigmoid": nn.sigmoid}


class Gated(FeedForward):
    """Multiplies the activations by a third map of the input (Shazeer 2020, equation 6).

    It is GLU with the activation 'sigmoid', SwiGLU with 'silu', both with biases.
    """

    activation: str

    activate = property(lambda self: ACTIVATIONS[self.activation])

    def setup(self) -> None:
        check_value("model.feed_forward.activation", self.activation, tuple(ACTIVATIONS))

    def hidden(self, x_BTD: Array) -> Array:
        gate = dense.linear(self.dtype)(self.options.d_ff, name="gate")
        return super().hidden(x_BTD) * gate(x_BTD)

    @nn.nowrap
    def multiply_adds(self) -> int:
        return super().multiply_adds() + self.options.d_model * self.options.d_ff


def no_network(parent: None = None) -> None:
    """Returns None, for layers without a feed-forward network."""
