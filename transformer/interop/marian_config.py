"""The config.json of Hugging Face's Marian models, as fields of our Transformer and back."""

import functools
from pathlib import Path
from typing import Any

import flax.linen as nn

from transformer.data.tokenizer import END, PAD
from transformer.errors import UserError
from transformer.interop.foreign import ANY, check_form

EPSILON = 1e-5  # of LayerNorm, which the format does not name
MOST_LAYERS = 256  # a config with more is damaged, and would take long to build
# {theirs: ours}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "swish": "silu"}
RATES = {
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
}


def fields_of(config: dict, file: Path) -> dict[str, Any]:
    """Returns the fields of our Transformer that a config.json of Marian describes."""
    get = functools.partial(value_of, config, file)
    for name in ("attention_heads", "ffn_dim"):
        sizes = get(f"encoder_{name}", int), get(f"decoder_{name}", int)
        if sizes[0] != sizes[1]:
            raise UserError(
                f"{file}: encoder_{name}={sizes[0]} and decoder_{name}={sizes[1]} differ, which "
                "our model has no field for"
            )
    for name in ("encoder_layers", "decoder_layers"):
        if not 1 <= get(name, int) <= MOST_LAYERS:
            raise UserError(f"{file}: {name} is from 1 to {MOST_LAYERS}, found {config[name]}")
    if (activation := get("activation_function", str)) not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"{file}: activation_function is one of {known}, found {activation!r}")
    if not get("scale_embedding", bool, False):
        raise UserError(f"{file}: scale_embedding is false; our models multiply by sqrt(d_model)")
    for name in ("normalize_before", "add_final_layer_norm", "normalize_embedding"):
        if config.get(name):
            raise UserError(f"{file}: {name} is true, which is no Marian model of Hugging Face's")
    shared = get("share_encoder_decoder_embeddings", bool, True)
    tied = "all" if shared else "target" if get("tie_word_embeddings", bool, True) else "none"
    return {
        "d_model": get("d_model", int),
        "d_ff": get("encoder_ffn_dim", int),
        "num_heads": get("encoder_attention_heads", int),
        "num_layers": get("encoder_layers", int),
        "num_decoder_layers": get("decoder_layers", int),
        "positions": "halves",
        "norm_epsilon": EPSILON,
        "tied_embeddings": tied,
        "activation": ACTIVATIONS[activation],
        "attention_bias": True,
        "output_bias": True,
        **{ours: get(theirs, float, 0.0) for theirs, ours in RATES.items()},
    }


def value_of(values: dict, file: Path, name: str, kind: type, default: object = None) -> Any:
    """Returns a value of a JSON file; UserError, which names both, if it is of another kind."""
    value = values.get(name, default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise UserError(f"{file}: {name} is missing, or no {kind.__name__}: found {value!r}")
    return value


def activation_of(model: nn.Module) -> str:
    """Returns Hugging Face's name of a model's activation."""
    return {ours: theirs for theirs, ours in ACTIVATIONS.items()}[model.activation]


def config_of(
    model: nn.Module, orders: tuple[list[int], list[int]], *, max_positions: int
) -> dict[str, Any]:
    """Returns the config.json of MarianMTModel; `orders` are our ids in the order there."""
    pad, end = map(orders[1].index, (PAD, END))
    size = {"attention_heads": model.num_heads, "ffn_dim": model.d_ff}
    halves = ("encoder", "decoder")
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": model.d_model,
        **{f"{half}_{name}": value for half in halves for name, value in size.items()},
        "encoder_layers": model.num_layers,
        "decoder_layers": model.decoder_depth,
        "num_hidden_layers": model.num_layers,
        "vocab_size": len(orders[0]),
        "decoder_vocab_size": len(orders[1]),
        "share_encoder_decoder_embeddings": model.tied_embeddings == "all",
        "tie_word_embeddings": model.tied_embeddings != "none",
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": max_positions,
        "activation_function": activation_of(model),
        **{theirs: getattr(model, ours) for theirs, ours in RATES.items()},
        **{"pad_token_id": pad, "decoder_start_token_id": pad},
        **{"eos_token_id": end, "forced_eos_token_id": end},  # forced at max_length, as here
        "torch_dtype": "float32",
    }


def check_exportable(model: nn.Module) -> list[str]:
    """Returns what changes a little in Marian's form, a line each; UserError for what it lacks."""
    allowed = {
        **ANY,
        **{"norm": ("post",), "norm_kind": ("layer",), "final_norm": (False,)},
        **{"residual": (True,), "score": ("scaled_dot",), "first_position": (0,)},
        **{"positions": ("interleaved", "halves"), "activation": tuple(ACTIVATIONS.values())},
        **dict.fromkeys(("source_vocab_size", "target_vocab_size"), ()),
        **dict.fromkeys(("num_decoder_layers", "output_bias"), ()),
    }
    check_form(model, "Hugging Face's Marian", allowed, "ctranslate2 or safetensors")
    if model.norm_epsilon != EPSILON:
        return [f"LayerNorm's epsilon is {EPSILON:g} there, {model.norm_epsilon:g} here"]
    return []
