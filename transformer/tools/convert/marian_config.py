"""Reads and writes config.json and generation_config.json of Hugging Face's Marian."""

import functools
import logging
import math
from pathlib import Path
from typing import Any

import flax.linen as nn

from transformer.data.tokenizer import END, PAD
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert import forms

EPSILON = 1e-5  # of LayerNorm, which the format does not name
# A config.json with larger sizes is damaged, and its model would take long to build.
MAX_SIZES = {
    "d_model": 1 << 16,
    "encoder_ffn_dim": 1 << 20,
    "encoder_attention_heads": 1024,
    "encoder_layers": 256,
    "decoder_layers": 256,
}
# {Marian's name: ours}; of silu and swish, two names of one function, the last is written.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
# {Marian's name: ours}
RATES = {
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
}
# {option of `generate` that our search lacks: the value that turns the option off}
NOT_SEARCHED = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_new_tokens": 0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "num_beam_groups": 1,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "do_sample": False,
}


def field(
    values: dict[str, Any],
    file: Path,
    name: str,
    kind: type,
    default: object = None,
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> Any:
    """Returns a field of an object; a missing or null field has the default.

    UserError, which names file and field, if the value is not of the type `kind`, if a missing
    field has no default, or if a number is not from `least` to `most`.
    """
    value = default if values.get(name) is None else values[name]
    # Some programs write 1.0 as 1. A float holds every integer below 2^53.
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not kind:
        raise UserError(
            f"{file}: {name} is missing, or no {kind.__name__}: found {str(value)[:40]!r}"
        )
    if kind in (int, float) and not least <= value <= most:  # NaN is refused, too
        raise UserError(f"{file}: {name} is from {least} to {most}, found {value:.15g}")
    return value


def fields_of(config: dict, file: Path) -> dict[str, Any]:
    """Returns the fields of our Transformer that a config.json of Marian describes.

    normalize_before, normalize_embedding and add_final_layer_norm are ignored, because
    MarianMTModel ignores them.
    """
    get = functools.partial(field, config, file)
    sizes = {name: get(name, int, least=1, most=most) for name, most in MAX_SIZES.items()}
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = sizes[f"encoder_{name}"], get(f"decoder_{name}", int)
        if encoder != decoder:
            raise UserError(
                f"{file}: encoder_{name}={encoder} and decoder_{name}={decoder} differ, which our "
                "model has no field for"
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
        # Our embeddings are always multiplied by sqrt(d_model). Where Marian's are not, the tables
        # are divided by that factor, so that the logits need an undivided matrix of their own.
        "tied_embeddings": ties(config, file)[0] if scales else "none",
        "activation": ACTIVATIONS[activation],
        "attention_bias": True,
        "output_bias": True,
        **{name: get(foreign, float, 0.0, least=0, most=1) for foreign, name in RATES.items()},
    }


def ties(config: dict, file: Path) -> tuple[str, bool]:
    """Returns the value of `tied_embeddings`, and whether both sides share their embeddings.

    Without tie_word_embeddings the three matrices of a shared vocabulary are separate.
    """
    get = functools.partial(field, config, file)
    is_shared = get("share_encoder_decoder_embeddings", bool, True)
    tied = "all" if is_shared else "target"
    return (tied if get("tie_word_embeddings", bool, True) else "none"), is_shared


def search_of(folder: Path, config: dict) -> tuple[dict[str, Any], bool]:
    """Returns the keys of a config with which our search is that of a folder's `generate`.

    The second value is whether `generate` renormalises the scores, so that pieces that are ruled
    out have no share of the probability. UserError for a search that is not supported here.
    """
    # Newer folders have the options of `generate` in a file of their own.
    newer = folder / "generation_config.json"
    file = newer if newer.is_file() else folder / "config.json"
    search = json_files.read_object(file)
    for name, without in NOT_SEARCHED.items():
        if search.get(name) not in (None, without):
            raise UserError(
                f"{file}: {name}={search[name]!r} is not supported here: set it to {without}"
            )
    get = functools.partial(field, search, file)
    # Our search never outputs PAD or START: other pieces cannot be ruled out.
    never = [[config["pad_token_id"]], [config["decoder_start_token_id"]]]
    if [word for word in get("bad_words_ids", list, []) if word not in never]:
        raise UserError(f"{file}: bad_words_ids are {never} at most")
    keys = {
        "decode.beam_width": get("num_beams", int, 4, least=1, most=1024),
        # `generate` ranks hypotheses by log P / length^alpha.
        "decode.length_penalty": "power",
        "decode.length_alpha": get("length_penalty", float, 1.0, least=0, most=100),
        # The longest output of `generate`, which --mode=export writes again.
        "vocabulary.max_length": get("max_length", int, 0, least=0, most=1 << 30),
        # `generate` counts the start symbol: its 5 is our 4.
        "decode.min_length": max(0, get("min_length", int, 0, least=0, most=1024) - 1),
        "decode.stopping": "full" if search.get("early_stopping") is True else "best",
    }
    return keys, get("renormalize_logits", bool, False)


def config_of(
    model: nn.Module, orders: tuple[list[int], list[int]], *, max_positions: int
) -> dict[str, Any]:
    """Returns the config.json of MarianMTModel; `orders` are our ids in Marian's order."""
    options = model.options
    # The order 1 2 4 5 0 has END = 1 at Marian's id 0, and PAD = 0 at its id 4.
    pad, end = map(orders[1].index, (PAD, END))
    activations = {name: foreign for foreign, name in ACTIVATIONS.items()}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": options.d_model,
        "encoder_attention_heads": options.num_heads,
        "decoder_attention_heads": options.num_heads,
        "encoder_ffn_dim": options.d_ff,
        "decoder_ffn_dim": options.d_ff,
        "encoder_layers": options.num_layers,
        "decoder_layers": model.decoder_options.num_layers,
        "num_hidden_layers": options.num_layers,
        "vocab_size": len(orders[0]),
        "decoder_vocab_size": len(orders[1]),
        "share_encoder_decoder_embeddings": model.tied_embeddings == "all",
        "tie_word_embeddings": model.tied_embeddings != "none",
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": max_positions,
        "activation_function": activations[options.activation],
        **{foreign: getattr(options, name) for foreign, name in RATES.items()},
        # An output begins with the padding.
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": end,
        "forced_eos_token_id": end,  # forced at max_length, as here
        "torch_dtype": "float32",
    }


def check(model: nn.Module) -> None:
    """Raises UserError for a model that Marian cannot represent; warns of another epsilon."""
    allowed = {
        "norm": ("post",),
        "final_norm": (False,),
        "positions": ("interleaved", "halves"),
        "activation": tuple(ACTIVATIONS.values()),
    }
    forms.check(model, "Hugging Face's Marian", allowed, "ctranslate2 or safetensors")
    if (epsilon := model.options.norm_epsilon) != EPSILON:
        logging.warning("export: LayerNorm's epsilon is %g there, %g here", EPSILON, epsilon)
