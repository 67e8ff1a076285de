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
TOKEN, POSITIONS = "vit.embeddings.cls_token", "vit.embeddings.position_embeddings"
PATCHES = "vit.embeddings.patch_embeddings.projection"


def check(model: nn.Module) -> None:
    """Raises UserError for a model that ViT has no form for."""
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
    arrays.write(folder / "model.safetensors", arrays_of(model, params))
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


def arrays_of(model: nn.Module, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns their arrays, {name: array}."""
    from transformer.families.images.patches import interpolate

    D, side = model.options.d_model, side_of(model)
    # Our token has its position in it, so that theirs is zeros.
    positions_PD = np.zeros((1 + side * side, D), np.float32)
    if model.options.positions == "learned":
        grid_HWD = interpolate(params["position_grid"], (side, side))
        positions_PD[1:] = np.asarray(grid_HWD).reshape(-1, D)
    return {
        TOKEN: params["token"],
        POSITIONS: positions_PD[None],
        # [height, width, channels, D] is [D, channels, height, width] there.
        f"{PATCHES}.weight": params["patches/linear/kernel"].transpose(3, 2, 0, 1),
        f"{PATCHES}.bias": params["patches/linear/bias"],
        **matrices.modules(params, _paths(model)),
    }


def params_of(
    model: nn.Module, arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Returns our params of what `arrays_of` gives; KeyError or ValueError for other arrays.

    The model's position_grid is `side_of` it.
    """
    params = matrices.params_of(arrays, _paths(model), shapes)
    params["token"] = arrays[TOKEN]
    params["patches/linear/kernel"] = arrays[f"{PATCHES}.weight"].transpose(2, 3, 1, 0)
    params["patches/linear/bias"] = arrays[f"{PATCHES}.bias"]
    if model.options.positions == "learned":
        params["position_grid"] = arrays[POSITIONS][0, 1:].reshape(shapes["position_grid"])
    return params


def side_of(model: nn.Module) -> int:
    """Returns how many patches an image has in a row."""
    return model.image_size // model.patch_size


def _paths(model: nn.Module) -> dict[str, tuple[str, ...]]:
    paths = matrices.layers("vit.encoder.layer", "encoder", model.options.num_layers, LAYER)
    return {**paths, "vit.layernorm": ("encoder/norm",), "classifier": ("head",)}
