"""CTranslate2's models: a folder that ctranslate2.Translator loads, read.

The files are model.bin, config.json (which old folders lack) and the vocabularies of
ctranslate2_vocabulary.py. Writing is left to CTranslate2's own package; it has no reader of
model.bin: binary_variables.py is one.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from transformer.errors import UserError
from transformer.interop import binary_variables, ctranslate2_vocabulary, layout
from transformer.interop.foreign import Foreign
from transformer.models.positions import sinusoids
from transformer.storage import json_files

# common_spec.Activation's numbers: {theirs: ours}
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # old models name their size
# Fields that a model has only as variables, with the value that we have.
ONLY = {
    **{"multi_query_attention": 0, "layernorm_embedding": 0, "rms_norm": 0, "ffn_glu": 0},
    **{"pre_post_layer_norm": 0, "qk_norm": 0},
}


def read(folder: Path) -> Foreign:
    """Reads all of a CTranslate2 folder but its params; UserError if it is no such Transformer."""
    file = folder / "model.bin"
    model = binary_variables.read(file)
    if not model.spec.startswith("Transformer"):
        raise UserError(f"{file} is a {model.spec}, expected a TransformerSpec of CTranslate2")
    config = json_files.read(folder / "config.json") if (folder / "config.json").is_file() else {}
    if config.get("add_source_bos"):
        raise UserError(f"{folder}/config.json: add_source_bos is true, which we have no form for")
    orders = tuple(
        ctranslate2_vocabulary.read_order(
            folder, side, len(model.array(f"{half}/embeddings/weight")), config
        )
        for side, half in (("source", "encoder"), ("target", "decoder"))
    )
    kind, vocabulary = ctranslate2_vocabulary.read_files(folder, orders)
    shared = "shared.pieces" in vocabulary or "shared.characters" in vocabulary
    return Foreign(
        fields={
            **_fields(file, model, shared),
            "norm_epsilon": config.get("layer_norm_epsilon") or 1e-5,
        },
        orders=orders,
        vocabulary=vocabulary,
        config={
            "vocabulary.shared": shared,
            "vocabulary.kind": kind,
            "vocabulary.source_end": bool(config.get("add_source_eos", False)),
            "decode.beam_width": 2,  # CTranslate2's default, as is the length penalty
            "decode.length_penalty": "power",
            "decode.length_alpha": 1.0,
            "decode.stopping": "full",
        },
    )


def read_params(
    folder: Path, foreign: Foreign, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params; `shapes` are {path: shape} of the model of `foreign`."""
    file = folder / "model.bin"
    model, params = binary_variables.read(file), {}
    for path, shape in shapes.items():
        name, part, parts = place_of(path)
        array = model.array(name)
        if array is None:
            raise UserError(f"{file}: {name} is missing")
        if parts > 1:
            array = np.split(array, parts)[part] if len(array) % parts == 0 else array[:0]
        rows = path.endswith("embedding") or path == "output_bias"
        order = foreign.order_of(path)
        expected = (order.count, *shape[1:]) if rows else shape
        if path.endswith("kernel"):
            expected = layout.matrix_shape(path, shape)
        elif not rows:
            expected = (int(np.prod(shape)),)
        if array.shape != expected:
            raise UserError(
                f"{file}: {name} has the shape {list(array.shape)}, expected {parts} times "
                f"{list(expected)}"
            )
        if rows:
            params[path] = order.rows(array)
        else:
            params[path] = (
                layout.kernel(array, shape) if path.endswith("kernel") else array.reshape(shape)
            )
    return params


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
    theirs = {"self_attention": "self_attention", "cross_attention": "attention"}
    block = block.removesuffix("_residual")
    if module == "layer_norm":
        return f"{place}/{theirs.get(block, 'ffn')}/layer_norm/{last or 'beta'}", 0, 1
    if block == "feed_forward":
        linear, part, parts = {"inner": 0, "outer": 1}[module], 0, 1
        block = "ffn"
    else:
        linear, part, parts = LINEARS[block][module]
        block = theirs[block]
    return f"{place}/{block}/linear_{linear}/{last or 'bias'}", part, parts


# {block: {module: (number of the linear map, part, parts)}}
LINEARS = {
    "self_attention": {
        "query": (0, 0, 3),
        "key": (0, 1, 3),
        "value": (0, 2, 3),
        "output": (1, 0, 1),
    },
    "cross_attention": {
        "query": (0, 0, 1),
        "key": (1, 0, 2),
        "value": (1, 1, 2),
        "output": (2, 0, 1),
    },
}


def _fields(file: Path, model: binary_variables.Model, shared: bool) -> dict[str, Any]:
    """Returns the fields of our Transformer that a model's variables describe."""
    get = model.scalar
    for name, value in ONLY.items():
        for half in ("encoder", "decoder"):
            if get(f"{half}/{name}", value) != value:
                raise UserError(f"{file}: {half}/{name} is set, which we have no form for")
    depth = {half: model.count(f"{half}/layer_") for half in ("encoder", "decoder")}
    target = model.array("decoder/embeddings/weight")
    if target is None or not depth["encoder"] or not depth["decoder"]:
        raise UserError(f"{file} is no encoder and decoder with a single embedding each")
    heads = get("encoder/num_heads", get("num_heads", HEADS.get(model.spec)))
    if heads is None:
        raise UserError(f"{file}: encoder/num_heads is missing")
    if (activation := get("encoder/activation", 0)) not in ACTIVATIONS:
        raise UserError(f"{file}: encoder/activation is number {activation}, which we do not have")
    if get("encoder/scale_embeddings", 1) != 1 or model.array("encoder/embeddings/weight") is None:
        raise UserError(f"{file}: embeddings are not multiplied by sqrt(d_model), as ours are")
    same = lambda a, b: (
        model.target(a) == model.target(b) or np.array_equal(model.array(a), model.array(b))
    )
    output = same("decoder/projection/weight", "decoder/embeddings/weight")
    source = shared and same("encoder/embeddings/weight", "decoder/embeddings/weight")
    kind, first, rows = _positions(file, model, target.shape[1])
    return {
        "d_model": target.shape[1],
        "d_ff": len(model.array("encoder/layer_0/ffn/linear_0/bias")),
        "num_heads": int(heads),
        "num_layers": depth["encoder"],
        "num_decoder_layers": depth["decoder"],
        "norm": "pre" if get("encoder/pre_norm", 1) else "post",
        "final_norm": model.array("encoder/layer_norm/gamma") is not None,
        "positions": kind,
        "first_position": first,
        "max_positions": rows,
        "tied_embeddings": "none" if not output else "all" if source else "target",
        "activation": ACTIVATIONS[activation],
        "attention_bias": model.array("encoder/layer_0/self_attention/linear_0/bias") is not None,
        "output_bias": model.array("decoder/projection/bias") is not None,
    }


def _positions(file: Path, model: binary_variables.Model, D: int) -> tuple[str, int, int]:
    """Returns (kind, number of the first position, rows of a table) of the position encodings.

    A model without a table has the sinusoids of tensor2tensor, whose first position is 1. A table
    of sinusoids is recognised; UserError for another one, which we would have to keep for both
    encoder and decoder.
    """
    tables = [
        model.array(f"{half}/position_encodings/encodings") for half in ("encoder", "decoder")
    ]
    if tables[0] is None and tables[1] is None:
        return "concatenated", 1, 0
    for kind, first in itertools.product(("interleaved", "halves", "concatenated"), (0, 1)):
        if all(_are_sinusoids(table, kind, first) for table in tables):
            return kind, first, 0
    raise UserError(f"{file}: the position encodings are no sinusoids that we know")


def _are_sinusoids(table_PD: np.ndarray, kind: str, first: int) -> bool:
    P, D = table_PD.shape
    waves_1PD = sinusoids(np.arange(P)[None] + first, D, kind)
    return np.allclose(table_PD, waves_1PD[0], atol=1e-3)
