"""Hugging Face's Marian models, such as OPUS-MT's: MarianMTModel's folder read and written.

The files are config.json, model.safetensors (or the older pytorch_model.bin), vocab.json with the
ids of the pieces, and source.spm and target.spm, which cut text into them. Positions are sinusoids
in 'halves'; the layers are the paper's, with LayerNorm behind each residual connection.
"""

import functools
import logging
from pathlib import Path
from typing import Any

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import PAD, START
from transformer.errors import UserError
from transformer.models.positions import sinusoids
from transformer.runtime import json_files
from transformer.tools.convert import arrays, marian_config, marian_tokenizer, matrices
from transformer.tools.convert.foreign import Foreign, params_of

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
# {module of a layer: theirs}
MODULES = {
    **{f"self_attention/{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross_attention/{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "self_attention_residual/layer_norm": "self_attn_layer_norm",
    "cross_attention_residual/layer_norm": "encoder_attn_layer_norm",
    "feed_forward/inner": "fc1",
    "feed_forward/outer": "fc2",
    "feed_forward_residual/layer_norm": "final_layer_norm",
}
SINUSOIDS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, SHARED = "lm_head.weight", "model.shared.weight"
EMBEDDINGS = {
    "target_embedding/embedding": DECODER,
    "source_embedding/embedding": ENCODER,
    "output_embedding/embedding": OUTPUT,
}
# What a search can do there, and ours cannot, with the value at which it does nothing.
NOT_SEARCHED = {
    **{"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "min_new_tokens": 0},
    **{"repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "num_beam_groups": 1},
    **dict.fromkeys(("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens")),
    "do_sample": False,
}
IMPOSSIBLE = -1e4  # a logit's bias, finite in float16, too


def read(folder: Path) -> Foreign:
    """Reads config and vocabulary of a Marian folder.

    UserError, which names the file and the field, if it is none.
    """
    file = folder / "config.json"
    config = json_files.read_object(file)
    fields = marian_config.fields_of(config, file)
    orders, vocabulary = marian_tokenizer.read(folder, config, marian_config.ties(config, file)[1])
    # Newer folders have what a search does in a file of its own.
    file_of_search = folder / "generation_config.json"
    has_file = file_of_search.is_file()
    search = json_files.read_object(file_of_search) if has_file else config
    file_of_search = file_of_search if has_file else file
    get = functools.partial(json_files.field, search, file_of_search)
    for name, without in NOT_SEARCHED.items():
        if search.get(name) not in (None, without):
            raise UserError(
                f"{file_of_search}: {name}={search[name]!r} has no form here: set it to {without}"
            )
    never = [[config["pad_token_id"]], [config["decoder_start_token_id"]]]
    if [word for word in get("bad_words_ids", list, []) if word not in never]:
        raise UserError(f"{file_of_search}: bad_words_ids are {never} at most")
    if get("renormalize_logits", bool, False):  # what is never said has no probability
        orders = tuple(order._replace(silent=(PAD, START)) for order in orders)
    return Foreign(
        fields=fields,
        orders=orders,
        vocabulary=vocabulary,
        config={
            "vocabulary.shared": "shared.pieces" in vocabulary,
            "vocabulary.kind": "table",
            "vocabulary.normalisation": marian_tokenizer.normalisation(vocabulary),
            "decode.beam_width": get("num_beams", int, 4, least=1, most=1024),
            # Theirs is log P / length^alpha.
            "decode.length_penalty": "power",
            "decode.length_alpha": get("length_penalty", float, 1.0, least=0, most=100),
            # Of an output there; --mode=export gives it back.
            "vocabulary.max_length": get("max_length", int, 0, least=0, most=1 << 30),
            # Theirs counts the start symbol.
            "decode.min_length": max(0, get("min_length", int, 0, least=0, most=1024) - 1),
            "decode.stopping": "full" if search.get("early_stopping") is True else "best",
        },
        languages=marian_tokenizer.languages(folder),
        factor=1.0 if config.get("scale_embedding") else fields["d_model"] ** -0.5,
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params, as `params_of` does."""
    file = folder / "config.json"
    tied, is_shared = marian_config.ties(json_files.read_object(file), file)
    D = foreign.fields["d_model"]
    with arrays.opened(folder) as source:
        # A tied matrix may be in the file under any of its names.
        groups = {"all": (SHARED, *EMBEDDINGS.values()), "target": (DECODER, OUTPUT), "none": ()}
        same = groups[tied]
        present = [name for name in same if name in source.shapes]

        def place_of(path: str) -> tuple[str, int, int]:
            name = name_of(path, "none")
            if name in same:
                name = [*present, name][0]
            elif name in (ENCODER, DECODER) and name not in source.shapes and is_shared:
                name = SHARED  # as version 4 writes it
            return name, 0, 1

        def fault(name: str, array: np.ndarray) -> str:
            if name in SINUSOIDS:
                skip = SINUSOIDS.index(name)  # the decoder's first position: see below
                is_table = array.ndim == 2 and len(array) > 0
                is_right = is_table and matrices.are_sinusoids(array[skip:], D, skip)
                return "" if is_right else "is no table of Marian's sinusoids"
            if name in same:
                is_right = np.array_equal(array, source.load(present[0]))
                return "" if is_right else f"is not {present[0]}, with which it is tied"
            # Where the three are not tied, version 5 has it, and does not use it.
            return "" if name == SHARED and is_shared else "is no array of this Marian model"

        params = params_of(source, foreign, shapes, place_of, fault)
        if SINUSOIDS[1] in source.shapes:  # as we write it, with the start symbol's vector in it
            first_D = source.read(SINUSOIDS[1], source.shapes[SINUSOIDS[1]])[0]
            start_D = (first_D - sinusoids(np.zeros((1, 1)), D, "halves")[0, 0]) / D**0.5
            params["target_embedding/embedding"][START] += start_D
    return params


def name_of(path: str, tied: str) -> str:
    """Returns the Marian name of a param path; UserError for a param that Marian does not have.

    Example: encoder/layers_0/self_attention/query/kernel is
    model.encoder.layers.0.self_attn.q_proj.weight.
    """
    if path == "output_bias":
        return "final_logits_bias"
    if path in EMBEDDINGS:
        return SHARED if tied == "all" else EMBEDDINGS[path]
    half, layer, module, name = matrices.in_layer(path, MODULES, "Hugging Face's Marian")
    last = "bias" if name == "bias" else "weight"
    return f"model.{half}.layers.{layer}.{MODULES[module]}.{last}"


def write(
    folder: Path,
    model: nn.Module,
    params: dict[str, np.ndarray],
    vocabulary: tokenizer.Vocabulary,
    generation: dict[str, Any],
    languages: tuple[str, str] = ("", ""),
    longest: int = 0,
) -> None:
    """Writes a folder that MarianMTModel and MarianTokenizer load.

    `generation` is what generation_config.json has besides the ids: num_beams, length_penalty, ...
    `languages` are the codes of source and target; `longest` is how many pieces a source may have,
    generation["max_length"] at least.
    """
    for line in marian_config.check_exportable(model):
        logging.warning("export: %s", line)
    if model.options.positions == "interleaved":
        params = matrices.halves(params)
    longest = max(longest, generation["max_length"])
    orders = marian_tokenizer.order_there(vocabulary)
    params, written = _beginning_with_padding(model, params, longest)
    for path, array in params.items():
        name = name_of(path, model.tied_embeddings)
        if path in EMBEDDINGS or path == "output_bias":
            array = array[orders[0 if path.startswith("source_") else 1]]
            array = array[None] if path == "output_bias" else array
        else:
            array = matrices.matrix(path, array) if path.endswith("kernel") else array.reshape(-1)
        written[name] = array
    # Zeros for the biases that our model does not have.
    for name, array in list(written.items()):
        if name.endswith("_proj.weight"):
            zeros = np.zeros(len(array), np.float32)
            written.setdefault(f"{name.removesuffix('weight')}bias", zeros)
    arrays.write(folder / "model.safetensors", written)
    config = marian_config.config_of(model, orders, max_positions=longest)
    json_files.write(folder / "config.json", config)
    ids = {key: config[key] for key in config if key.endswith("_token_id")}
    never = {"bad_words_ids": [[ids["pad_token_id"]]]}
    json_files.write(folder / "generation_config.json", {**ids, **never, **generation})
    marian_tokenizer.write(folder, vocabulary, longest, languages)


def _beginning_with_padding(
    model: nn.Module, params: dict[str, np.ndarray], count: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the params of the same function where an output begins with a vector of zeros.

    That is the padding's there, and CTranslate2's converter takes it for granted. Our start symbol
    has a vector, which is added to the first of `count` positions: the second value are these, by
    their name, if it is not zeros. The padding is given no probability.
    """
    embedding_VD = params["target_embedding/embedding"].copy()
    bias_V = params.get("output_bias", np.zeros(len(embedding_VD), np.float32)).copy()
    if embedding_VD[PAD].any() and model.tied_embeddings != "none":
        bias_V[PAD] = IMPOSSIBLE
    embedding_VD[PAD] = 0.0
    table, start_D = {}, embedding_VD[START]
    if start_D.any():
        D = model.options.d_model
        positions_PD = np.array(sinusoids(np.arange(count)[None], D, "halves")[0])
        positions_PD[0] += start_D * D**0.5
        table = {SINUSOIDS[1]: positions_PD}
    return {**params, "target_embedding/embedding": embedding_VD, "output_bias": bias_V}, table
