"""config.json and generation_config.json of Hugging Face's Marian, as our config and back."""

import functools
import logging
from pathlib import Path
from typing import Any

import flax.linen as nn

from transformer.data.tokenizer import END, PAD
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert import forms

EPSILON = 1e-5  # of LayerNorm, which the format does not name
# A config with larger sizes is damaged, and would take long to build.
MOST = {
    "d_model": 1 << 16,
    "encoder_ffn_dim": 1 << 20,
    "encoder_attention_heads": 1024,
    "encoder_layers": 256,
    "decoder_layers": 256,
}
# {theirs: ours}; silu and swish are one function, of which the last name is written.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
RATES = {
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
}
# What a search can do there, and ours cannot, with the value at which it does nothing.
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


def fields_of(config: dict, file: Path) -> dict[str, Any]:
    """Returns the fields of our Transformer that a config.json of Marian describes.

    normalize_before, normalize_embedding and add_final_layer_norm are not read, as MarianMTModel
    does not read them.
    """
    get = functools.partial(json_files.field, config, file)
    sizes = {name: get(name, int, least=1, most=most) for name, most in MOST.items()}
    for name in ("attention_heads", "ffn_dim"):
        here, there = sizes[f"encoder_{name}"], get(f"decoder_{name}", int)
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
    tied = "all" if is_shared else "target"
    return (tied if get("tie_word_embeddings", bool, True) else "none"), is_shared


def search_of(folder: Path, config: dict) -> tuple[dict[str, Any], bool]:
    """Returns the keys of a config that search as a folder's `generate` does.

    The second value is whether the scores are renormalised there, so that what is never said has no
    share of the probability. UserError for a search that we do not have.
    """
    # Newer folders have what a search does in a file of its own.
    newer = folder / "generation_config.json"
    file = newer if newer.is_file() else folder / "config.json"
    search = json_files.read_object(file)
    for name, without in NOT_SEARCHED.items():
        if search.get(name) not in (None, without):
            raise UserError(
                f"{file}: {name}={search[name]!r} is not supported here: set it to {without}"
            )
    get = functools.partial(json_files.field, search, file)
    never = [[config["pad_token_id"]], [config["decoder_start_token_id"]]]
    if [word for word in get("bad_words_ids", list, []) if word not in never]:
        raise UserError(f"{file}: bad_words_ids are {never} at most")
    keys = {
        "decode.beam_width": get("num_beams", int, 4, least=1, most=1024),
        # Theirs is log P / length^alpha.
        "decode.length_penalty": "power",
        "decode.length_alpha": get("length_penalty", float, 1.0, least=0, most=100),
        # Of an output there; --mode=export gives it back.
        "vocabulary.max_length": get("max_length", int, 0, least=0, most=1 << 30),
        # Theirs counts the start symbol.
        "decode.min_length": max(0, get("min_length", int, 0, least=0, most=1024) - 1),
        "decode.stopping": "full" if search.get("early_stopping") is True else "best",
    }
    return keys, get("renormalize_logits", bool, False)


def config_of(
    model: nn.Module, orders: tuple[list[int], list[int]], *, max_positions: int
) -> dict[str, Any]:
    """Returns the config.json of MarianMTModel; `orders` are our ids in the order there."""
    options = model.options
    pad, end = map(orders[1].index, (PAD, END))
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
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
        "decoder_layers": model.decoder_depth,
        "num_hidden_layers": options.num_layers,
        "vocab_size": len(orders[0]),
        "decoder_vocab_size": len(orders[1]),
        "share_encoder_decoder_embeddings": model.tied_embeddings == "all",
        "tie_word_embeddings": model.tied_embeddings != "none",
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": max_positions,
        "activation_function": activations[options.activation],
        **{theirs: getattr(options, ours) for theirs, ours in RATES.items()},
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": end,
        "forced_eos_token_id": end,  # forced at max_length, as here
        "torch_dtype": "float32",
    }


def check(model: nn.Module) -> None:
    """Raises UserError for a model that Marian cannot represent; logs small differences."""
    allowed = {
        "norm": ("post",),
        "norm_kind": ("layer",),
        "final_norm": (False,),
        "residual": (True,),
        "score": ("scaled_dot",),
        "positions": ("interleaved", "halves"),
        "activation": tuple(ACTIVATIONS.values()),
    }
    forms.check(model, "Hugging Face's Marian", allowed, "ctranslate2 or safetensors")
    if (epsilon := model.options.norm_epsilon) != EPSILON:
        logging.warning("export: LayerNorm's epsilon is %g there, %g here", EPSILON, epsilon)
