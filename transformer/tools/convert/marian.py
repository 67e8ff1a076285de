"""Hugging Face's Marian models, such as OPUS-MT's: MarianMTModel's folder read and written.

The files are config.json, model.safetensors (or the older pytorch_model.bin), vocab.json with the
ids of the pieces, and source.spm and target.spm, which cut text into them. Positions are sinusoids
in 'halves'; the layers are the paper's, with LayerNorm behind each residual connection.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import PAD, START
from transformer.errors import UserError
from transformer.models.positions import sinusoids
from transformer.runtime import json_files
from transformer.tools.convert import arrays, forms, marian_config, marian_tokenizer, matrices
from transformer.tools.convert.marian_tokenizer import Renumbering

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
# {which matrices are one there: their names}; it may be in the file under any of them.
TIED = {"all": (SHARED, *EMBEDDINGS.values()), "target": (DECODER, OUTPUT), "none": ()}
IMPOSSIBLE = -1e4  # a logit's bias, finite in float16, too
SILENT = 50.0  # less than another logit: a probability of 1e-22 of its own


class Foreign(NamedTuple):
    """What a workdir is made of, but for the params.

    `config` are keys of a config, {'decode.length_penalty': 'power'}.
    """

    fields: dict[str, Any]  # of our Transformer, where they are not the paper's
    orders: tuple[Renumbering, Renumbering]  # of the source's pieces, and of the target's
    vocabulary: dict[str, bytes]  # {name of a file in WORKDIR/vocabulary: content}
    config: dict[str, Any]
    tied: str  # a key of TIED
    is_shared: bool  # whether both sides have one matrix, or two that are as large
    factor: float  # of our embeddings, where theirs are not multiplied by sqrt(d_model)


def read(folder: Path) -> Foreign:
    """Reads config and vocabulary of a Marian folder.

    UserError, which names the file and the field, if it is none.
    """
    file = folder / "config.json"
    config = json_files.read_object(file)
    fields = marian_config.fields_of(config, file)
    tied, is_shared = marian_config.ties(config, file)
    orders, vocabulary = marian_tokenizer.read(folder, config, is_shared)
    search, is_renormalised = marian_config.search_of(folder, config)
    if is_renormalised:  # what is never said has no probability
        orders = tuple(order._replace(silent=(PAD, START)) for order in orders)
    return Foreign(
        fields=fields,
        orders=orders,
        vocabulary=vocabulary,
        config={
            "vocabulary.shared": "shared.pieces" in vocabulary,
            "vocabulary.kind": "table",
            "vocabulary.normalisation": marian_tokenizer.normalisation(vocabulary),
            **search,
        },
        tied=tied,
        is_shared=is_shared,
        factor=1.0 if config.get("scale_embedding") else fields["d_model"] ** -0.5,
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params; `shapes` are {path: shape} of the model of `foreign`.

    UserError for an array that is missing, has another shape, or is none of this model.
    """
    D, same = foreign.fields["d_model"], TIED[foreign.tied]
    with arrays.opened(folder) as source:
        present = [name for name in same if name in source.shapes]

        def place_of(path: str) -> str:
            name = name_of(path, "none")
            if name in same:
                return [*present, name][0]
            if name in (ENCODER, DECODER) and name not in source.shapes and foreign.is_shared:
                return SHARED  # as version 4 writes it
            return name

        def fault(name: str, array: np.ndarray) -> str:
            if name in SINUSOIDS:
                first = SINUSOIDS.index(name)  # not the decoder's position 0: see below
                is_right = matrices.are_sinusoids(array, D, first)
                return "" if is_right else "is not a table of Marian's sinusoids"
            if name in same:
                is_right = np.array_equal(array, source.load(present[0]))
                return "" if is_right else f"is not {present[0]}, with which it is tied"
            # Where the three are not tied, version 5 has it, and does not use it.
            is_unused = name == SHARED and foreign.is_shared
            return "" if is_unused else "is not an array of this Marian model"

        places = {path: place_of(path) for path in shapes}
        params = {}
        for path, name in places.items():
            params[path] = _read(source, foreign, path, name, shapes[path])
        source.check_rest({*places.values()}, fault)
        if SINUSOIDS[1] in source.shapes:  # as we write it, with the start symbol's vector in it
            first_D = source.read(SINUSOIDS[1], source.shapes[SINUSOIDS[1]])[0]
            start_D = (first_D - sinusoids(np.zeros((1, 1)), D, "halves")[0, 0]) / D**0.5
            params["target_embedding/embedding"][START] += start_D
    return params


def _read(
    source: arrays.Arrays, foreign: Foreign, path: str, name: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Reads one of our params, which has a name there; tables and biases of pieces in our order."""
    order = foreign.orders[0 if path.startswith("source_") else 1]
    if path == "output_bias":
        return _read_output_bias(source, name, order)
    if path not in EMBEDDINGS:
        return matrices.ours(source.read(name, matrices.their_shape(path, shape)), shape)
    array_VD = source.read(name, (order.count, *shape[1:]))[order.old]
    is_output = path == "output_embedding/embedding"
    return array_VD if is_output else array_VD * np.float32(foreign.factor)


def _read_output_bias(source: arrays.Arrays, name: str, order: Renumbering) -> np.ndarray:
    # Some files leave out zeros; in some the rows beyond the vocabulary are fewer.
    shape = source.shapes.get(name, (order.count,))
    if not order.old.max() < math.prod(shape) <= order.count:
        raise UserError(
            f"{source.file}: {name} has the shape {list(shape)}, expected {order.count}"
        )
    array = source.read(name, shape) if name in source.shapes else np.zeros(shape, np.float32)
    bias_V = array.reshape(-1)[order.old]
    bias_V[list(order.silent)] -= SILENT
    return bias_V


def name_of(path: str, tied: str) -> str:
    """Returns the Marian name of a param path; UserError for a param that Marian does not have.

    Example: encoder/layers_0/self_attention/query/kernel is
    model.encoder.layers.0.self_attn.q_proj.weight.
    """
    if path == "output_bias":
        return "final_logits_bias"
    if path in EMBEDDINGS:
        return SHARED if tied == "all" else EMBEDDINGS[path]
    half, layer, module, name = forms.in_layer(path, MODULES, "Hugging Face's Marian")
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
    marian_config.check(model)
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
            array = matrices.theirs(path, array)
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
