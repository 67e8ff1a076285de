"""Images -> vectors of patches, by a linear map or by convolutions."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jax import Array


class LinearPatches(nn.Module):
    """Maps the pixels of each patch linearly (Dosovitskiy et al. 2021, equation 1).

    It is a convolution whose stride equals its window, so that patches do not overlap.
    """

    d_model: int
    patch_size: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BHWC: Array) -> Array:
        """Returns [B, H / patch_size, W / patch_size, d_model]."""
        size = (self.patch_size, self.patch_size)
        linear = nn.Conv(self.d_model, size, size, "VALID", dtype=self.dtype, name="linear")
        return linear(x_BHWC)

    @nn.nowrap
    def multiply_adds(self, size: int, channels: int) -> int:
        """Returns the multiply-adds of an image of `size` x `size` pixels."""
        return size**2 * channels * self.d_model


class ConvolutionalStem(nn.Module):
    """Halves an image's height and width several times by convolutions (Xiao et al. 2021).

    Each convolution that halves the image is followed by `depth - 1` convolutions of stride 1.
    """

    d_model: int
    num_halvings: int
    depth: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BHWC: Array) -> Array:
        """Returns [B, H / 2^num_halvings, W / 2^num_halvings, d_model]."""
        for channels in self._channels():
            for stride in (2, *[1] * (self.depth - 1)):
                convolution = nn.Conv(channels, (3, 3), (stride, stride), dtype=self.dtype)
                # The paper's batch normalisation would make the images depend on each other.
                x_BHWC = nn.relu(nn.LayerNorm(dtype=self.dtype)(convolution(x_BHWC)))
        return nn.Conv(self.d_model, (1, 1), dtype=self.dtype)(x_BHWC)

    @nn.nowrap
    def multiply_adds(self, size: int, channels: int) -> int:
        """Returns the multiply-adds of an image of `size` x `size` pixels."""
        total = 0
        for wider in self._channels():
            size = math.ceil(size / 2)
            total += size**2 * 9 * wider * (channels + (self.depth - 1) * wider)
            channels = wider
        return total + size**2 * channels * self.d_model

    @nn.nowrap
    def _channels(self) -> list[int]:
        """Returns the channels after each halving: 16, 32, 64 for d_model 64 and 3 halvings."""
        return [max(1, self.d_model >> i) for i in reversed(range(self.num_halvings))]
