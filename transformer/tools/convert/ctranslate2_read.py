"""CTranslate2's models: a folder that ctranslate2.Translator loads, read.

The files are model.bin, config.json (which old folders lack) and the vocabularies of
ctranslate2_vocabulary.py. Writing is left to CTranslate2's own package; it has no reader of
model.bin: binary_variables.py is one.
"""

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np

from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert import arrays, binary_variables, ctranslate2_vocabulary, matrices
from transformer.tools.convert.foreign import MOST_LAYERS, Foreign, params_of

# common_spec.Activation's numbers: {theirs: ours}
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # old models name their size
# {name of a variable: value if it is missing}; our model has one of each for both halves.
OF_HALVES = {"pre_norm": 1, "activation": 0}
HALVES = ("encoder", "decoder")
# Variables that are read, or make no difference: what CTranslate2 calls an alignment, and how the
# embeddings of several features are merged.
KNOWN = ("alignment_layer", "alignment_heads", "embeddings_merge", "encodings")
KNOWN += ("num_heads", "scale_embeddings", "start_from_zero_embedding", *OF_HALVES)


def read(folder: Path) -> Foreign:
    """Reads all of a CTranslate2 folder but its params; UserError if it is no such Transformer."""
    model = binary_variables.read(folder / "model.bin")
    if not model.spec.startswith("Transformer"):
        raise UserError(
            f"{model.file} is a {model.spec}: only CTranslate2's TransformerSpec can be imported"
        )
    file = folder / "config.json"
    config = json_files.read_object(file) if file.is_file() else {}
    get = functools.partial(json_files.field, config, file)
    if get("add_source_bos", bool, False):
        raise UserError(f"{file}: add_source_bos is true, which we have no form for")
    # Then it is a Marian model, whose start symbol is any, and whose sources have an end.
    from_zeros = model.scalar("decoder/start_from_zero_embedding", 0) == 1
    orders = tuple(
        ctranslate2_vocabulary.read_order(folder, side, _rows(model, half), get, from_zeros)
        for side, half in (("source", "encoder"), ("target", "decoder"))
    )
    kind, vocabulary = ctranslate2_vocabulary.read_files(folder, orders)
    shared = "shared.pieces" in vocabulary or "shared.characters" in vocabulary
    fields, factor = _fields(model, shared), _factor(model)
    return Foreign(
        fields={
            **fields,
            # What is multiplied by a factor is no output's matrix, too.
            "tied_embeddings": fields["tied_embeddings"] if factor == 1 else "none",
            "output_bias": fields["output_bias"] or bool(orders[1].silent),
            "norm_epsilon": get("layer_norm_epsilon", float, 1e-5, least=1e-15, most=1),
        },
        orders=orders,
        vocabulary=vocabulary,
        config={
            "vocabulary.shared": shared,
            "vocabulary.kind": kind,
            "vocabulary.source_end": get("add_source_eos", bool, False) or from_zeros,
            # CTranslate2's defaults
            "decode.beam_width": 2,
            "decode.length_penalty": "power",
            "decode.length_alpha": 1.0,
            "decode.min_length": 1,
            "decode.stopping": "full",
        },
        starts_from_zeros=from_zeros,
        factor=factor,
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params, as `params_of` does."""
    model = binary_variables.read(folder / "model.bin")
    source = arrays.Arrays(model.file, model.shapes, model.array)

    def fault(name: str, array: np.ndarray) -> str:
        if name in ("encoder/embeddings/weight", "decoder/projection/weight"):
            return ""  # `_fields` has found it equal to what is read
        if name.split("/")[-1] in KNOWN and name.count("/") < 3:
            return ""
        if array.size == 1:
            return "is set, which we have no form for" if array.item() else ""
        return "is no variable of this model"

    return params_of(source, foreign, shapes, place_of, fault)


def place_of(path: str) -> tuple[str, int, int]:
    """Returns where an array of ours is in theirs: (name, which part of it, of how many parts).

    Self-attention has query, key and value in one matrix, cross-attention has key and value.
    Example: encoder/layers_0/self_attention/key/kernel is part 1 of the 3 of
    encoder/layer_0/self_attention/linear_0/weight.
    """
    whole = {
        "output_bias": "decoder/projection/bias",
        "source_embedding/embedding": "encoder/embeddings/weight",
        "target_embedding/embedding": "decoder/embeddings/weight",
        "output_embedding/embedding": "decoder/projection/weight",
    }
    if path in whole:
        return whole[path], 0, 1
    last = {"scale": "gamma", "kernel": "weight"}.get(path.split("/")[-1])
    if "/norm/" in path:
        return f"{path.split('/')[0]}/layer_norm/{last or 'beta'}", 0, 1
    half, layer, block, module, _ = path.split("/")
    place = f"{half}/{layer.replace('layers', 'layer')}"
    block = block.removesuffix("_residual")
    place = f"{place}/{BLOCKS[block]}"
    if module == "layer_norm":
        return f"{place}/layer_norm/{last or 'beta'}", 0, 1
    linear = next(i for i, modules in enumerate(LINEARS[block]) if module in modules)
    modules = LINEARS[block][linear]
    name = f"{place}/linear_{linear}/{last or 'bias'}"
    return name, modules.index(module), len(modules)


BLOCKS = {"self_attention": "self_attention", "cross_attention": "attention", "feed_forward": "ffn"}
# {block: the modules that are one linear map there, for each of its maps}
LINEARS = {
    "self_attention": (("query", "key", "value"), ("output",)),
    "cross_attention": (("query",), ("key", "value"), ("output",)),
    "feed_forward": (("inner",), ("outer",)),
}


def _rows(model: binary_variables.Model, half: str) -> int:
    """Returns the number of pieces that have an embedding; UserError if there are not two axes."""
    shape = model.shapes.get(f"{half}/embeddings/weight", ())
    if len(shape) != 2:
        raise UserError(f"{model.file}: {half}/embeddings/weight is missing, or no matrix")
    return shape[0]


def _fields(model: binary_variables.Model, shared: bool) -> dict[str, Any]:
    """Returns the fields of our Transformer that a model's variables describe."""
    depth = {half: model.count(f"{half}/layer_") for half in HALVES}
    if not all(1 <= count <= MOST_LAYERS for count in depth.values()):
        raise UserError(f"{model.file} has {depth} layers, expected 1 to {MOST_LAYERS} of each")
    heads = HEADS.get(model.spec)
    heads = model.scalar("num_heads", heads) if "num_heads" in model.shapes else heads
    said = {}
    for name, default in (*OF_HALVES.items(), ("num_heads", heads)):
        values = [model.scalar(f"{half}/{name}", default) for half in HALVES]
        if values[0] != values[1]:
            raise UserError(
                f"{model.file}: encoder/{name}={values[0]} and decoder/{name}={values[1]} differ, "
                "which our model has no field for"
            )
        said[name] = values[0]
    if (activation := said["activation"]) not in ACTIVATIONS:
        raise UserError(f"{model.file}: activation is number {activation}, which we do not have")
    inner = model.shapes.get("encoder/layer_0/ffn/linear_0/bias", ())
    if len(inner) != 1:
        raise UserError(f"{model.file}: encoder/layer_0/ffn/linear_0/bias is missing, or no vector")
    same = lambda *names: (
        all(name in model.shapes for name in names)
        and np.array_equal(*(model.array(name) for name in names))
    )
    output = same("decoder/projection/weight", "decoder/embeddings/weight")
    source = shared and same("encoder/embeddings/weight", "decoder/embeddings/weight")
    D = model.shapes["decoder/embeddings/weight"][1]
    kind, first = _positions(model, D)
    return {
        "d_model": D,
        "d_ff": inner[0],
        "num_heads": said["num_heads"],
        "num_layers": depth["encoder"],
        "num_decoder_layers": depth["decoder"],
        "norm": "pre" if said["pre_norm"] else "post",
        "final_norm": "encoder/layer_norm/gamma" in model.shapes,
        "positions": kind,
        "first_position": first,
        "max_positions": 0,
        "tied_embeddings": "none" if not output else "all" if source else "target",
        "activation": ACTIVATIONS[activation],
        "attention_bias": "encoder/layer_0/self_attention/linear_0/bias" in model.shapes,
        "output_bias": "decoder/projection/bias" in model.shapes,
    }


def _factor(model: binary_variables.Model) -> float:
    """Returns what our embeddings, which are multiplied by sqrt(d_model), are to be multiplied by.

    scale_embeddings is a switch, or the number by which they are multiplied there.
    """
    usual = math.sqrt(model.shapes["decoder/embeddings/weight"][1])
    scales = []
    for half in HALVES:
        variable = model.variables.get(f"{half}/scale_embeddings", np.array(1, np.int8)).reshape(-1)
        scale = float(variable[0]) if variable.size == 1 else math.nan
        if variable.dtype == np.int8:
            scale = usual if scale else 1.0
        scales.append(scale)
    if scales[0] != scales[1] or not 0 < scales[0] < math.inf:
        raise UserError(
            f"{model.file}: scale_embeddings is {scales[0]:g} in the encoder, {scales[1]:g} in the "
            "decoder: expected one number for both"
        )
    return 1.0 if math.isclose(scales[0], usual, rel_tol=1e-6) else scales[0] / usual


def _positions(model: binary_variables.Model, D: int) -> tuple[str, int]:
    """Returns (kind, number of the first position) of the position encodings.

    A half without a table has the sinusoids of tensor2tensor, whose first position is 1. A table
    of sinusoids is recognised; UserError for another one, which we would have to keep for both
    encoder and decoder.
    """
    names = [f"{half}/position_encodings/encodings" for half in HALVES]
    tables = [model.array(name) for name in names if name in model.shapes]
    if len(tables) < 2 and all(matrices.are_sinusoids(x, D, "concatenated", 1) for x in tables):
        return "concatenated", 1
    for kind, first in itertools.product(("interleaved", "halves", "concatenated"), (0, 1)):
        if len(tables) == 2 and all(matrices.are_sinusoids(x, D, kind, first) for x in tables):
            return kind, first
    raise UserError(f"{model.file}: the position encodings are no sinusoids that we know")
