"""Reads and writes folders of Hugging Face's Marian models (MarianMTModel), such as OPUS-MT's.

The files are config.json, model.safetensors (or the older pytorch_model.bin), source.spm and
target.spm, which split text into pieces, and vocab.json with the pieces' ids. Positions are
sinusoids in 'halves'; the layers are the paper's, with LayerNorm after each residual connection.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import PAD, START
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.convert import arrays, forms, marian_config, marian_tokenizer, matrices
from transformer.tools.convert.marian_tokenizer import Renumbering

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
# {module of a layer: Marian's module}
MODULES = {
    **{f"self_attention/{name}": f"self_attn.{foreign}" for name, foreign in ATTENTION.items()},
    **{f"cross_attention/{name}": f"encoder_attn.{foreign}" for name, foreign in ATTENTION.items()},
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
# {value of `tied_embeddings`: the names of the tied matrix}; a file may use any of them.
TIED = {"all": (SHARED, *EMBEDDINGS.values()), "target": (DECODER, OUTPUT), "none": ()}
IMPOSSIBLE = -1e4  # a bias that rules a piece out, finite in float16, too
SILENT = 50.0  # subtracted from a bias: the probability shrinks to exp(-50) = 2e-22 of its value


class Foreign(NamedTuple):
    """What a folder says in our terms, except for the params."""

    fields: dict[str, Any]  # of our Transformer; other fields are the paper's
    orders: tuple[Renumbering, Renumbering]  # of the source's pieces, and of the target's
    vocabulary: dict[str, bytes]  # {name of a file in WORKDIR/vocabulary: content}
    settings: dict[str, Any]  # of our config: {'decode.length_penalty': 'power', ...}
    theirs: dict[str, Any]  # the folder's config.json


def read(folder: Path) -> Foreign:
    """Reads config and vocabulary of a Marian folder.

    UserError names the file, and the field that is damaged or not supported here.
    """
    file = folder / "config.json"
    theirs = marian_config.read(file, marian_config.CONFIG)
    orders, vocabulary = marian_tokenizer.read(folder, theirs)
    search, is_renormalised = marian_config.search_of(folder, theirs)
    # `generate` rules PAD and START out, then renormalises, so they have no probability.
    if is_renormalised:
        orders = tuple(order._replace(silent=(PAD, START)) for order in orders)
    return Foreign(
        fields=marian_config.fields_of(theirs, file),
        orders=orders,
        vocabulary=vocabulary,
        settings={
            "vocabulary.shared": "shared.pieces" in vocabulary,
            "vocabulary.kind": "table",
            "vocabulary.normalisation": marian_tokenizer.normalisation(vocabulary),
            **search,
        },
        theirs=theirs,
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params; `shapes` are {path: shape} of the model of `foreign`.

    UserError for an array that is missing, has another shape, or does not belong to the model.
    """
    D = foreign.fields["d_model"]
    tied = TIED[marian_config.tied(foreign.theirs)]
    is_shared = foreign.theirs["share_encoder_decoder_embeddings"]
    with arrays.opened(folder) as source:
        present = [name for name in tied if name in source.shapes]

        def place_of(path: str) -> str:
            name = name_of(path, "none")
            if name in tied:
                return [*present, name][0]
            # Version 4 of transformers writes shared embeddings of both sides under one name.
            if name in (ENCODER, DECODER) and name not in source.shapes and is_shared:
                return SHARED
            return name

        def fault(name: str, array: np.ndarray) -> str:
            # The decoder, index 1, from position 1 on: position 0 may have START's vector (below).
            if name in SINUSOIDS:
                is_right = matrices.are_sinusoids(array, D, SINUSOIDS.index(name))
                what = "a table of Marian's sinusoids"
            elif name in tied:
                is_right = np.array_equal(array, source.load(present[0]))
                what = f"{present[0]}, with which it is tied"
            else:
                # Version 5 writes model.shared.weight even for untied matrices, without using it.
                is_right, what = name == SHARED and is_shared, "an array of this Marian model"
            return "" if is_right else f"is not {what}"

        places = {path: place_of(path) for path in shapes}
        params = {x: _read(source, foreign, x, name, shapes[x]) for x, name in places.items()}
        source.check_rest({*places.values()}, fault)
        # Undo `_beginning_with_padding`: START's vector is position 0 minus its sinusoid.
        if SINUSOIDS[1] in source.shapes:
            first_D = source.read(SINUSOIDS[1], source.shapes[SINUSOIDS[1]])[0]
            start_D = (first_D - matrices.sinusoids(1, D)[0]) / D**0.5
            params["target_embedding/embedding"][START] += start_D
    return params


def _read(
    source: arrays.Arrays, foreign: Foreign, path: str, name: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Reads the param `path` from the array `name`, with rows of pieces in our order."""
    order = foreign.orders[0 if path.startswith("source_") else 1]
    if path == "output_bias":
        return _read_output_bias(source, name, order)
    if path not in EMBEDDINGS:
        return matrices.from_foreign(source.read(name, matrices.foreign_shape(path, shape)), shape)
    # order.old 4 0 1 4 2 3 takes row 4 twice, for PAD and START.
    array_VD = source.read(name, (order.count, *shape[1:]))[order.old]
    # Our model multiplies embeddings by sqrt(d_model), but not an untied output embedding.
    if foreign.theirs["scale_embedding"] or path == "output_embedding/embedding":
        return array_VD
    return array_VD * np.float32(foreign.fields["d_model"] ** -0.5)


def _read_output_bias(source: arrays.Arrays, name: str, order: Renumbering) -> np.ndarray:
    """Reads the bias of the logits, [1, V] in a file, in our order of the pieces."""
    # Some files leave out a bias of zeros, or have fewer rows beyond the vocabulary.
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
    """Returns Marian's name of a param; UserError for a param that Marian cannot represent.

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

    `generation` has the options of generation_config.json besides the ids: num_beams,
    length_penalty, ... `languages` are the codes of source and target. The number of positions is
    the larger of `longest`, the maximum pieces of a source, and generation["max_length"].
    """
    marian_config.check(model)
    if model.options.positions == "interleaved":
        params = matrices.to_halves(params)
    longest = max(longest, generation["max_length"])
    orders = marian_tokenizer.marian_orders(vocabulary)
    params, written = _beginning_with_padding(model, params, longest)
    for path, array in params.items():
        name = name_of(path, model.tied_embeddings)
        if path in EMBEDDINGS or path == "output_bias":
            array = array[orders[0 if path.startswith("source_") else 1]]
            array = array[None] if path == "output_bias" else array
        else:
            array = matrices.to_foreign(path, array)
        written[name] = array
    # Marian's projections always have biases; add zeros if our model has none.
    for name, array in list(written.items()):
        if name.endswith("_proj.weight"):
            zeros = np.zeros(len(array), np.float32)
            written.setdefault(f"{name.removesuffix('weight')}bias", zeros)
    arrays.write(folder / "model.safetensors", written)
    config = marian_config.config_of(model, orders, max_positions=longest)
    paths.write_json(folder / "config.json", config)
    ids = {key: config[key] for key in config if key.endswith("_token_id")}
    # An output starts with the padding, and never contains it later.
    never = {"bad_words_ids": [[ids["pad_token_id"]]]}
    paths.write_json(folder / "generation_config.json", {**ids, **never, **generation})
    marian_tokenizer.write(folder, vocabulary, longest, languages)


def _beginning_with_padding(
    model: nn.Module, params: dict[str, np.ndarray], count: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns params of the same function whose outputs start with the padding, a vector of zeros.

    Marian's outputs start so, and CTranslate2's converter assumes the zeros. The vector of our
    start symbol is added to the first of `count` positions of the decoder. The second value is
    {name: positions}, or {} if the vector is zeros. The padding is ruled out.
    """
    embedding_VD = params["target_embedding/embedding"].copy()
    bias_V = params.get("output_bias", np.zeros(len(embedding_VD), np.float32)).copy()
    # If tied to the logits, a row of zeros would give the padding the logit 0.
    if embedding_VD[PAD].any() and model.tied_embeddings != "none":
        bias_V[PAD] = IMPOSSIBLE
    embedding_VD[PAD] = 0.0
    table, start_D = {}, embedding_VD[START]
    if start_D.any():
        D = model.options.d_model
        positions_PD = matrices.sinusoids(count, D)
        positions_PD[0] += start_D * D**0.5
        table = {SINUSOIDS[1]: positions_PD}
    return {**params, "target_embedding/embedding": embedding_VD, "output_bias": bias_V}, table
