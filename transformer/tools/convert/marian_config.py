"""The config.json of Hugging Face's Marian models, as fields of our Transformer and back."""

import functools
from pathlib import Path
from typing import Any

import flax.linen as nn

from transformer.data.tokenizer import END, PAD
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert.foreign import ANY, MOST_LAYERS, check_form

EPSILON = 1e-5  # of LayerNorm, which the format does not name
# A config with larger sizes is damaged, and would take long to build.
MOST = {
    **{"d_model": 1 << 16, "encoder_ffn_dim": 1 << 20, "decoder_ffn_dim": 1 << 20},
    **{"encoder_attention_heads": 1024, "decoder_attention_heads": 1024},
    **{"encoder_layers": MOST_LAYERS, "decoder_layers": MOST_LAYERS},
}
# {theirs: ours}
ACTIVATIONS = {
    **{"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh"},
    **{"silu": "silu", "swish": "silu"},  # one function; the last name is written
}
RATES = {
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
}


def fields_of(config: dict, file: Path) -> dict[str, Any]:
    """Returns the fields of our Transformer that a config.json of Marian describes.

    normalize_before, normalize_embedding and add_final_layer_norm are not read, as MarianMTModel
    does not read them.
    """
    get = functools.partial(json_files.field, config, file)
    sizes = {name: get(name, int, least=1, most=most) for name, most in MOST.items()}
    for name in ("attention_heads", "ffn_dim"):
        here, there = sizes[f"encoder_{name}"], sizes[f"decoder_{name}"]
        if here != there:
            raise UserError(
                f"{file}: encoder_{name}={here} and decoder_{name}={there} differ, which our model "
                "has no field for"
            )
    if (activation := get("activation_function", str)) not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"{file}: activation_function is one of {known}, found {activation!r}")
    scales = get("scale_embedding", bool, False)
    return {
        "d_model": sizes["d_model"],
        "d_ff": sizes["encoder_ffn_dim"],
        "num_heads": sizes["encoder_attention_heads"],
        "num_layers": sizes["encoder_layers"],
        "num_decoder_layers": sizes["decoder_layers"],
        "positions": "halves",
        "norm_epsilon": EPSILON,
        # Our embeddings are always multiplied by sqrt(d_model): then they are no output's, too.
        "tied_embeddings": ties(config, file)[0] if scales else "none",
        "activation": ACTIVATIONS[activation],
        "attention_bias": True,
        "output_bias": True,
        **{ours: get(theirs, float, 0.0, least=0, most=1) for theirs, ours in RATES.items()},
    }


def ties(config: dict, file: Path) -> tuple[str, bool]:
    """Returns which matrices are one there, as in `tied_embeddings`; and if both sides share one.

    Without tie_word_embeddings the three matrices of a shared vocabulary are three.
    """
    get = functools.partial(json_files.field, config, file)
    is_shared = get("share_encoder_decoder_embeddings", bool, True)
    if not get("tie_word_embeddings", bool, True):
        return "none", is_shared
    return "all" if is_shared else "target", is_shared


def activation_of(model: nn.Module) -> str:
    """Returns Hugging Face's name of a model's activation."""
    return {ours: theirs for theirs, ours in ACTIVATIONS.items()}[model.options.activation]


def config_of(
    model: nn.Module, orders: tuple[list[int], list[int]], *, max_positions: int
) -> dict[str, Any]:
    """Returns the config.json of MarianMTModel; `orders` are our ids in the order there."""
    options = model.options
    pad, end = map(orders[1].index, (PAD, END))
    size = {"attention_heads": options.num_heads, "ffn_dim": options.d_ff}
    halves = ("encoder", "decoder")
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": options.d_model,
        **{f"{half}_{name}": value for half in halves for name, value in size.items()},
        "encoder_layers": options.num_layers,
        "decoder_layers": model.decoder_depth,
        "num_hidden_layers": options.num_layers,
        "vocab_size": len(orders[0]),
        "decoder_vocab_size": len(orders[1]),
        "share_encoder_decoder_embeddings": model.tied_embeddings == "all",
        "tie_word_embeddings": model.tied_embeddings != "none",
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": max_positions,
        "activation_function": activation_of(model),
        **{theirs: getattr(options, ours) for theirs, ours in RATES.items()},
        **{"pad_token_id": pad, "decoder_start_token_id": pad},
        **{"eos_token_id": end, "forced_eos_token_id": end},  # forced at max_length, as here
        "torch_dtype": "float32",
    }


def check_exportable(model: nn.Module) -> list[str]:
    """Returns what changes a little in Marian's form, a line each; UserError for what it lacks."""
    allowed = {
        **ANY,
        **{"norm": ("post",), "norm_kind": ("layer",), "final_norm": (False,)},
        **{"residual": (True,), "score": ("scaled_dot",)},
        **{"positions": ("interleaved", "halves"), "activation": tuple(ACTIVATIONS.values())},
        **dict.fromkeys(("source_vocab_size", "target_vocab_size"), ()),
        **dict.fromkeys(("num_decoder_layers", "output_bias"), ()),
    }
    check_form(model, "Hugging Face's Marian", allowed, "ctranslate2 or safetensors")
    if model.options.norm_epsilon != EPSILON:
        return [f"LayerNorm's epsilon is {EPSILON:g} there, {model.options.norm_epsilon:g} here"]
    return []
