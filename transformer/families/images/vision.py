"""The Vision Transformer (Dosovitskiy et al. 2021): images -> patches -> encoder -> logits."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from transformer.errors import UserError
from transformer.families.images import patches
from transformer.models import boxes, dense, stack
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View


class VisionTransformer(nn.Module):
    """Maps images to logits of their classes. Params are float32.

    Without layers, and with a deep convolutional stem, it is a convolutional network.
    """

    num_classes: int
    image_size: int  # height and width for `flops`; images of other sizes work, too
    patch_size: int  # height and width of a patch, which is one position of the encoder
    # Maps patches to vectors: 'patches', a linear map of the pixels (the paper's), or
    # 'convolutions' (Xiao et al. 2021, "Early convolutions help transformers see better").
    stem: str
    stem_depth: int  # convolutions at each size; the first halves the image
    pooling: str  # classifies a learned 'token' or the 'mean' of the patches
    position_grid: int  # height and width of the learned positions, interpolated to other grids
    # Of each channel's pixels from 0 to 1; the input is (pixel / 255 - mean) / std.
    mean: tuple
    std: tuple
    options: LayerOptions  # 'learned' positions are added to the patches
    dtype: str

    attention_weights = staticmethod(stack.stacked_weights)

    def setup(self) -> None:
        self._check()
        D = self.options.d_model
        self.patches = self._stem()
        normal = dense.normal(0.02)
        if self.options.positions == "learned":
            grid = (self.position_grid, self.position_grid)
            self.grid_HWD = self.param("position_grid", normal, (*grid, D))
        else:
            # Appended positions that are learned: a row for the token and for each patch.
            size = {"max_positions": math.ceil(self.image_size / self.patch_size) ** 2 + 1}
            kind = self.options.positions
            self.positions = boxes.part("positions", kind, options=self.options, **size)()
        if self.pooling == "token":
            # One vector, the sum of the paper's learned token and its learned position.
            self.token = self.param("token", normal, (1, 1, D))
        self.dropout = dense.Dropout(rate=self.options.dropout_rate)
        self.encoder = stack.Stack(self.options, causal=False, dtype=self.dtype)
        # Zeros, as in the paper's code, so that all classes are equally likely at first.
        self.head = nn.Dense(self.num_classes, kernel_init=nn.initializers.zeros)

    def __call__(self, images: Array, *, train: bool) -> Array:
        """Returns logits [B, V] in float32 of uint8 images [B, height, width, channels]."""
        x_BSD = self.embed(images, train=train)
        # Every position sees all positions.
        places_BS = jnp.broadcast_to(jnp.arange(x_BSD.shape[1]), x_BSD.shape[:2])
        view = View(jnp.ones((1, 1, x_BSD.shape[1]), bool), places_BS, places_BS)
        x_BSD = self.encoder(x_BSD, view, train=train).astype(jnp.float32)
        x_BD = x_BSD[:, 0] if self.pooling == "token" else x_BSD.mean(axis=1)
        return self.head(x_BD)

    def embed(self, images: Array, *, train: bool) -> Array:
        """Returns the encoder's input [B, S, D]: patches with their positions, row by row.

        With pooling = 'token', the token is position 0, before the patches.
        """
        mean, std = jnp.array(self.mean), jnp.array(self.std)
        normalised = ((images / 255.0 - mean) / std).astype(self.dtype)
        x_BHWD = self.patches(normalised)
        B, H, W, D = x_BHWD.shape
        if self.options.positions == "learned":
            x_BHWD += jax.image.resize(self.grid_HWD, (H, W, D), "bilinear")
        # The patch at (h, w) of the grid becomes position h * W + w.
        x_BSD = x_BHWD.reshape(B, -1, D)
        if self.pooling == "token":
            x_BSD = jnp.concatenate([jnp.broadcast_to(self.token, (B, 1, D)), x_BSD], axis=1)
        if self.options.positions != "learned":
            x_BSD = self.positions(x_BSD, jnp.arange(x_BSD.shape[1])[None])
        return self.dropout(x_BSD.astype(self.dtype), deterministic=not train)

    def flops(self, rows: int, length: int) -> int:
        """Returns the FLOPs of a training step on `rows` images; `length` is not used.

        Only matrix products and convolutions count, and the backward pass as two forward passes.
        """
        # Round up, because a convolutional stem pads: size 30 has 4 x 4 patches of 8.
        num_patches = math.ceil(self.image_size / self.patch_size) ** 2
        positions = num_patches + (self.pooling == "token")
        D = self.options.d_model
        encoder = stack.multiply_adds(self.options, positions, causal=False)
        stem = self._stem().multiply_adds(self.image_size, len(self.mean))
        return 3 * 2 * rows * (stem + positions * encoder + D * self.num_classes)

    @nn.nowrap
    def _stem(self) -> nn.Module:
        """Returns the module that maps images to vectors of patches."""
        # Without a parent, for `flops`; `setup` binds it by assignment.
        options = {"d_model": self.options.d_model, "dtype": jnp.dtype(self.dtype), "parent": None}
        if self.stem == "patches":
            return patches.LinearPatches(patch_size=self.patch_size, **options)
        halvings = int(math.log2(self.patch_size))
        return patches.ConvolutionalStem(num_halvings=halvings, depth=self.stem_depth, **options)

    def _check(self) -> None:
        """Raises UserError for invalid fields, named by their config key."""
        stack.check_options(self)
        if self.stem == "patches" and self.image_size % self.patch_size:
            raise UserError(
                f"config.data.size={self.image_size} must be a multiple of "
                f"config.model.patch_size={self.patch_size}"
            )
        if self.stem == "convolutions" and self.patch_size & (self.patch_size - 1):
            raise UserError(
                f"config.model.patch_size={self.patch_size} must be a power of two with "
                "config.model.stem='convolutions', which halve the image"
            )
        if self.pooling == "token" and not self.options.num_layers:
            raise UserError(
                "config.model.num_layers=0 needs config.model.pooling='mean': a class token reads "
                "the patches in the layers"
            )
        if len(self.mean) != len(self.std) or not self.mean:
            raise UserError(
                "config.model.mean and config.model.std must have a number for each channel, found "
                f"{self.mean} and {self.std}"
            )
        if min(self.std) <= 0:
            raise UserError(f"config.model.std must be above 0, found {self.std}")
