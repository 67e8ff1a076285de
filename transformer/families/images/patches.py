"""Images -> patches, a vector each: by a linear map or by convolutions; positions on their grid."""

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class LinearPatches(nn.Module):
    """Maps the pixels of each patch linearly (Dosovitskiy et al. 2021, equation 1).

    The map is a convolution whose stride equals its window, so that patches do not overlap.
    """

    d_model: int
    patch_size: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BHWC: Array) -> Array:
        """Returns [B, H / patch_size, W / patch_size, d_model]."""
        size = (self.patch_size, self.patch_size)
        return nn.Conv(
            self.d_model, size, strides=size, padding="VALID", dtype=self.dtype, name="linear"
        )(x_BHWC)


class ConvolutionalStem(nn.Module):
    """Halves an image's height and width several times by convolutions (Xiao et al. 2021)."""

    d_model: int
    num_halvings: int
    norm_epsilon: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BHWC: Array) -> Array:
        """Returns [B, H / 2^num_halvings, W / 2^num_halvings, d_model]."""
        # Channels double while the image is halved: d_model 64 and 3 halvings give 16, 32, 64.
        for i in reversed(range(self.num_halvings)):
            x_BHWC = nn.Conv(max(1, self.d_model >> i), (3, 3), strides=(2, 2), dtype=self.dtype)(
                x_BHWC
            )
            # The paper normalises over the batch; here an image's output depends on no other image.
            x_BHWC = nn.relu(nn.LayerNorm(epsilon=self.norm_epsilon, dtype=self.dtype)(x_BHWC))
        return nn.Conv(self.d_model, (1, 1), dtype=self.dtype)(x_BHWC)


def interpolate(positions_HWD: Array, grid: tuple[int, int]) -> Array:
    """Returns learned positions interpolated bilinearly to `grid` (height, width), [*grid, D]."""
    return jax.image.resize(positions_HWD, (*grid, positions_HWD.shape[-1]), "bilinear")
