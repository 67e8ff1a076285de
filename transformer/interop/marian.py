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
from transformer.interop import arrays, layout, marian_config, marian_tokenizer
from transformer.interop.foreign import Foreign
from transformer.models.positions import sinusoids
from transformer.storage import json_files

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
SINUSOIDS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
EMBEDDINGS = {
    "target_embedding/embedding": "model.decoder.embed_tokens.weight",
    "source_embedding/embedding": "model.encoder.embed_tokens.weight",
    "output_embedding/embedding": "lm_head.weight",
}
SHARED = "model.shared.weight"
IMPOSSIBLE = -1e4  # a logit's bias, finite in float16, too


def read(folder: Path) -> Foreign:
    """Reads config and vocabulary of a Marian folder.

    UserError, which names the file and the field, if it is none.
    """
    file = folder / "config.json"
    config = json_files.read_object(file)
    fields = marian_config.fields_of(config, file)
    shared = fields["tied_embeddings"] == "all"
    orders, vocabulary = marian_tokenizer.read(folder, config, shared)
    keys = ("vocab_size", "vocab_size" if shared else "decoder_vocab_size")
    for order, key in zip(orders, keys, strict=True):
        if config.get(key) != (count := int(order.old.max()) + 1):
            raise UserError(f"{file}: {key} is {count:,} by vocab.json, found {config.get(key)!r}")
    # Newer folders have what a search does in a file of its own.
    if (file_of_search := folder / "generation_config.json").is_file():
        file, config = file_of_search, json_files.read_object(file_of_search)
    get = functools.partial(marian_config.value_of, config, file)
    return Foreign(
        fields=fields,
        orders=orders,
        vocabulary=vocabulary,
        config={
            "vocabulary.shared": shared,
            "vocabulary.kind": "table",
            "decode.beam_width": get("num_beams", int, 4),
            # Theirs is log P / length^alpha.
            "decode.length_penalty": "power",
            "decode.length_alpha": get("length_penalty", float, 1.0),
            "export.max_length": get("max_length", int, 0),
            "decode.stopping": "full" if config.get("early_stopping") is True else "best",
        },
        languages=marian_tokenizer.languages(folder),
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params; `shapes` are {path: shape} of the model of `foreign`.

    An array is only read once its shape is known to be right; UserError for one that is missing,
    has another shape, or is none of a Marian model.
    """
    params = {}
    with arrays.opened(folder) as (file, there, load):
        names = {path: name_of(path, foreign.fields["tied_embeddings"]) for path in shapes}
        for path, name in names.items():
            expected = _shape_there(path, shapes[path], foreign)
            if name == SHARED and name not in there:
                name = next((x for x in EMBEDDINGS.values() if x in there), name)
            if there.get(name) is None and path == "output_bias":  # older files leave out zeros
                params[path] = np.zeros(shapes[path], np.float32)
                continue
            if there.get(name) != expected:
                said = f"has the shape {list(there[name])}" if name in there else "is missing"
                raise UserError(f"{file}: {name} {said}, expected {list(expected)}")
            array = np.asarray(load(name), np.float32)
            if not np.isfinite(array).all():
                raise UserError(f"{file}: {name} has values that are no finite numbers")
            params[path] = _ours(path, array, shapes[path], foreign)
        if SINUSOIDS[1] in there:  # as we write them, with the start symbol's vector in the first
            first_D = np.asarray(load(SINUSOIDS[1]), np.float32)[0]
            D = len(first_D)
            start_D = (first_D - sinusoids(np.zeros((1, 1)), D, "halves")[0, 0]) / D**0.5
            params["target_embedding/embedding"][START] += start_D
        known = {*names.values(), *EMBEDDINGS.values(), SHARED, *SINUSOIDS}
        if unknown := sorted(there.keys() - known):
            raise UserError(f"{file}: {unknown[0]} is no array of this Marian model")
    return params


def name_of(path: str, tied: str) -> str:
    """Returns their name of one of our params.

    Example: encoder/layers_0/self_attention/query/kernel is
    model.encoder.layers.0.self_attn.q_proj.weight.
    """
    if path == "output_bias":
        return "final_logits_bias"
    if path in EMBEDDINGS:
        return SHARED if tied == "all" else EMBEDDINGS[path]
    half, layer, part, module, *rest = path.split("/")
    attention = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    block = part.removesuffix("_residual")
    if module == "layer_norm":
        name = f"{attention[block]}_layer_norm" if block in attention else "final_layer_norm"
    elif block in attention:
        name = f"{attention[block]}.{ATTENTION[module]}"
    else:
        name = {"inner": "fc1", "outer": "fc2"}[module]
    last = "bias" if rest == ["bias"] else "weight"
    return f"model.{half}.layers.{layer.removeprefix('layers_')}.{name}.{last}"


def _shape_there(path: str, shape: tuple[int, ...], foreign: Foreign) -> tuple[int, ...]:
    """Returns the shape that an array of ours has in their file."""
    if path in EMBEDDINGS:
        return foreign.order_of(path).count, shape[1]
    if path == "output_bias":
        return 1, foreign.order_of(path).count
    if path.endswith("kernel"):
        return layout.matrix_shape(path, shape)
    return (int(np.prod(shape)),)


def _ours(path: str, array: np.ndarray, shape: tuple[int, ...], foreign: Foreign) -> np.ndarray:
    if path in EMBEDDINGS:
        return foreign.order_of(path).rows(array)
    if path == "output_bias":
        return foreign.order_of(path).rows(array[0])
    return layout.kernel(array, shape) if path.endswith("kernel") else array.reshape(shape)


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
    if model.positions == "interleaved":
        params = layout.halves(params)
    longest = max(longest, generation["max_length"])
    orders = marian_tokenizer.order_there(vocabulary)
    params, written = _beginning_with_padding(model, params, longest)
    for path, array in params.items():
        name = name_of(path, model.tied_embeddings)
        if path in EMBEDDINGS or path == "output_bias":
            array = array[orders[0 if path.startswith("source_") else 1]]
            array = array[None] if path == "output_bias" else array
        else:
            array = layout.matrix(path, array) if path.endswith("kernel") else array.reshape(-1)
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
        positions_PD = np.array(sinusoids(np.arange(count)[None], model.d_model, "halves")[0])
        positions_PD[0] += start_D * model.d_model**0.5
        table = {SINUSOIDS[1]: positions_PD}
    return {**params, "target_embedding/embedding": embedding_VD, "output_bias": bias_V}, table
