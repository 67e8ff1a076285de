"""Hugging Face's ViT: our Vision Transformer as a folder that ViTForImageClassification loads."""

from collections.abc import Sequence
from pathlib import Path

import flax.linen as nn
import numpy as np

from transformer.runtime import json_files
from transformer.tools.convert import arrays, matrices
from transformer.tools.convert.foreign import PRE_NORM, check_form
from transformer.tools.convert.marian_config import ACTIVATIONS, activation_of

FORM = {
    **PRE_NORM,
    "activation": tuple(ACTIVATIONS.values()),
    **{"score": ("scaled_dot",), "positions": ("learned", "none")},
    **{"stem": ("patches",), "pooling": ("token",), "mean": (), "std": ()},
    **dict.fromkeys(("num_classes", "image_size", "patch_size", "position_grid"), ()),
}
BILINEAR = 2  # Pillow's number of it
# {their module: ours}, in each layer.
LAYER = {
    "layernorm_before": ("self_attention_residual/layer_norm",),
    **{f"attention.attention.{x}": (f"self_attention/{x}",) for x in ("query", "key", "value")},
    "attention.output.dense": ("self_attention/output",),
    "layernorm_after": ("feed_forward_residual/layer_norm",),
    "intermediate.dense": ("feed_forward/inner",),
    "output.dense": ("feed_forward/outer",),
}
POSITIONS = "vit.embeddings.position_embeddings"
PATCHES = "vit.embeddings.patch_embeddings.projection"


def check(model: nn.Module) -> None:
    """Raises UserError for a model that cannot be exported to ViT."""
    check_form(model, "Hugging Face's ViT", FORM, "safetensors")


def write(
    folder: Path,
    model: nn.Module,
    params: dict[str, np.ndarray],
    labels: Sequence[str],
    *,
    central_crop: float,
) -> None:
    """Writes a folder that ViTForImageClassification and AutoImageProcessor load.

    UserError for a model of another form. `labels` are the names of the classes, `central_crop` the
    share of an image's shorter side that the model sees.
    """
    check(model)
    options = model.options
    arrays.write(folder / "model.safetensors", matrices.arrays_of(table(model), params))
    size, names = model.image_size, {str(i): label for i, label in enumerate(labels)}
    json_files.write(
        folder / "config.json",
        {
            "architectures": ["ViTForImageClassification"],
            "model_type": "vit",
            "image_size": size,
            "patch_size": model.patch_size,
            "num_channels": len(model.mean),
            "hidden_size": options.d_model,
            "intermediate_size": options.d_ff,
            "num_hidden_layers": options.num_layers,
            "num_attention_heads": options.num_heads,
            "hidden_act": activation_of(model),
            "layer_norm_eps": options.norm_epsilon,
            "qkv_bias": True,
            "hidden_dropout_prob": options.dropout_rate,
            "attention_probs_dropout_prob": options.attention_dropout_rate,
            "id2label": names,
            "label2id": {label: int(i) for i, label in names.items()},
            "torch_dtype": "float32",
        },
    )
    json_files.write(
        folder / "preprocessor_config.json",
        {
            # CLIP's, because ViT's own has no crop, and would distort what is no square.
            "image_processor_type": "CLIPImageProcessor",
            "do_resize": True,
            "size": {"shortest_edge": round(size / central_crop)},
            "resample": BILINEAR,
            "do_center_crop": True,
            "crop_size": {"height": size, "width": size},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(model.mean),
            "image_std": list(model.std),
            "do_convert_rgb": len(model.mean) == 3,
        },
    )


def table(model: nn.Module) -> matrices.Table:
    """Returns where ViTForImageClassification has our params; read, position_grid is `side_of`."""
    from transformer.families.images.patches import interpolate

    side, D = side_of(model), model.options.d_model

    def positions(grid_HWD: np.ndarray) -> np.ndarray:
        grid_PD = np.asarray(interpolate(grid_HWD, (side, side))).reshape(-1, D)
        # Our token has its position in it, so that theirs is zeros.
        return np.concatenate([np.zeros((1, D)), grid_PD])[None]

    arrays = {
        "vit.embeddings.cls_token": matrices.scaled("token"),
        # [height, width, channels, D] is [D, channels, height, width] there.
        f"{PATCHES}.weight": (
            "patches/linear/kernel",
            lambda x: x.transpose(3, 2, 0, 1),
            lambda x: x.transpose(2, 3, 1, 0),
        ),
        f"{PATCHES}.bias": matrices.scaled("patches/linear/bias"),
    }
    if model.options.positions == "learned":
        grid = lambda x: x[0, 1:].reshape(side, side, D)
        arrays[POSITIONS] = ("position_grid", positions, grid)
    layers = matrices.layers("vit.encoder.layer", "encoder", model.options.num_layers, LAYER)
    modules = {**layers, "vit.layernorm": ("encoder/norm",), "classifier": ("head",)}
    return matrices.Table(modules, arrays, {POSITIONS: np.zeros((1, 1 + side * side, D))})


def side_of(model: nn.Module) -> int:
    """Returns how many patches an image has in a row."""
    return model.image_size // model.patch_size
