"""Reads and writes config.json and generation_config.json of Hugging Face's Marian."""

import logging
from pathlib import Path
from typing import Any

import flax.linen as nn

from transformer.data.tokenizer import END, PAD
from transformer.decoding import methods
from transformer.errors import UserError
from transformer.models import boxes
from transformer.runtime import paths
from transformer.tools.convert import forms

EPSILON = 1e-5  # of LayerNorm, which the format does not name
# {Marian's name: ours}; silu and swish are one function, and the last name is written.
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
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "min_new_tokens"), 0),
    **dict.fromkeys(("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens")),
    **dict.fromkeys(("num_beam_groups", "encoder_repetition_penalty"), 1),
    "do_sample": False,
}
# {our rule: (option of `generate`, the rule's field, the value that turns it off)}, in the order in
# which `generate` applies them.
RULES = {
    "repetition": ("repetition_penalty", "penalty", 1.0),
    "no_repeat_ngram": ("no_repeat_ngram_size", "size", 0),
}
# {field of config.json: its type, or the default if a file may lack it}
CONFIG = {
    **dict.fromkeys(("d_model", "encoder_layers", "decoder_layers", "vocab_size"), int),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), int),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), int),
    **dict.fromkeys(("pad_token_id", "eos_token_id", "decoder_start_token_id"), int),
    "decoder_vocab_size": 0,  # 0: vocab_size
    "activation_function": str,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    **dict.fromkeys(RATES, 0.0),
}
# {option of `generate`: its default}
SEARCH = {
    "num_beams": 4,
    "length_penalty": 1.0,
    "min_length": 0,
    "bad_words_ids": [],
    "renormalize_logits": False,
    **{option: off for option, _, off in RULES.values()},
}


def read(file: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Returns the object of a JSON file, with defaults for missing and null fields.

    `expected` is {field: its type or its default}. UserError names a field that is missing or has
    another type.
    """
    values = {name: x for name, x in paths.read_json_object(file).items() if x is not None}
    for name, default in expected.items():
        kind = default if isinstance(default, type) else type(default)
        value = values.setdefault(name, None if kind is default else default)
        # Some programs write 1.0 as 1.
        if type(value) is not kind and (type(value), kind) != (int, float):
            raise UserError(f"{file}: {name} must be of type {kind.__name__}, found {value!r:.40}")
    return values


def fields_of(config: dict[str, Any], file: Path) -> dict[str, Any]:
    """Returns the fields of our Transformer that a config.json of Marian describes.

    normalize_before, normalize_embedding and add_final_layer_norm are ignored, because
    MarianMTModel ignores them.
    """
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if encoder != decoder:
            raise UserError(f"{file}: encoder_{name}={encoder} and decoder_{name}={decoder} differ")
    activation = config["activation_function"]
    return {
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "num_heads": config["encoder_attention_heads"],
        "num_layers": config["encoder_layers"],
        "num_decoder_layers": config["decoder_layers"],
        "positions": "halves",
        "norm": f"layer(epsilon={EPSILON})",
        # Our embeddings are always multiplied by sqrt(d_model). If Marian's are not, the tables are
        # divided by that factor, and the logits need their own undivided matrix.
        "tied_embeddings": tied(config) if config["scale_embedding"] else "none",
        "feed_forward": ACTIVATIONS.get(activation, activation),
        "attention_bias": True,
        "output_bias": True,
        **{name: float(config[foreign]) for foreign, name in RATES.items()},
    }


def tied(config: dict[str, Any]) -> str:
    """Returns the tied matrices of a file, as a value of `tied_embeddings`.

    Without tie_word_embeddings the three matrices of a shared vocabulary are separate.
    """
    if not config["tie_word_embeddings"]:
        return "none"
    return "all" if config["share_encoder_decoder_embeddings"] else "target"


def search_of(folder: Path, config: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the config keys for the search of a folder's `generate`.

    The second value is whether `generate` renormalises the scores, so that pieces that are ruled
    out have no share of the probability. UserError for a search that is not supported here.
    """
    # Newer folders have the options of `generate` in a separate file.
    newer = folder / "generation_config.json"
    file = newer if newer.is_file() else folder / "config.json"
    search = read(file, SEARCH)
    # Our search never outputs PAD or START, and cannot rule out other pieces.
    never = [[config["pad_token_id"]], [config["decoder_start_token_id"]]]
    supported = NOT_SEARCHED | {"bad_words_ids": [x for x in search["bad_words_ids"] if x in never]}
    for name, value in supported.items():
        if search.get(name, value) != value:
            raise UserError(
                f"{file}: {name}={search[name]!r} is not supported here: set it to {value}"
            )
    chosen = {x: rule for x, rule in RULES.items() if search[rule[0]] != rule[2]}
    if chosen and search["renormalize_logits"]:
        raise UserError(f"{file}: renormalize_logits with {[*chosen]} is not supported here")
    rules = [f"{x}({field}={search[option]})" for x, (option, field, _) in chosen.items()]
    keys = {
        "decode.rules": ",".join(rules),
        "decode.beam_width": search["num_beams"],
        # `generate` ranks hypotheses by log P / length^alpha.
        "decode.length_penalty": "power",
        "decode.length_alpha": float(search["length_penalty"]),
        # `generate` counts the start symbol, so its 5 is our 4.
        "decode.min_length": max(0, search["min_length"] - 1),
        "decode.stopping": "full" if search.get("early_stopping") is True else "best",
    }
    return keys, search["renormalize_logits"]


def rules_of(rules: str) -> dict[str, Any]:
    """Returns the options of `generate` for config.decode.rules; warns of rules that it lacks."""
    named = {rule.name: rule.fields for rule in methods.parse_rules(rules)}
    if lacking := named.keys() - RULES.keys():
        logging.warning("export: Marian's generate has no rule %s", ", ".join(sorted(lacking)))
    return {option: named[x][field] for x, (option, field, _) in RULES.items() if x in named}


def config_of(
    model: nn.Module, orders: tuple[list[int], list[int]], *, max_positions: int
) -> dict[str, Any]:
    """Returns the config.json of MarianMTModel; `orders` are our ids in Marian's order."""
    options = model.options
    # The order 1 2 4 5 0 has END = 1 at Marian's id 0, and PAD = 0 at its id 4.
    pad, end = map(orders[1].index, (PAD, END))
    activations = {name: foreign for foreign, name in ACTIVATIONS.items()}
    [network] = boxes.parse("feed_forward", options.feed_forward)
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
        "activation_function": activations[network.name],
        **{foreign: getattr(options, name) for foreign, name in RATES.items()},
        # An output starts with the padding.
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": end,
        "forced_eos_token_id": end,  # forced at max_length, as here
        "torch_dtype": "float32",
    }


def check(model: nn.Module) -> None:
    """Raises UserError for a model that Marian cannot represent; warns of another epsilon."""
    allowed = {
        "residual": ("post",),
        "final_norm": (False,),
        "positions": ("interleaved", "halves"),
        "feed_forward": tuple(ACTIVATIONS.values()),
    }
    forms.check(model, "Hugging Face's Marian", allowed, "ctranslate2 or safetensors")
    [norm] = boxes.parse("norm", model.options.norm)
    if (epsilon := norm.fields["epsilon"]) != EPSILON:
        logging.warning("export: LayerNorm's epsilon is %g there, %g here", EPSILON, epsilon)
