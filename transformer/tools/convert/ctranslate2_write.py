"""Writes a CTranslate2 folder, which ctranslate2.Translator loads, by CTranslate2's own package."""

from collections.abc import Sequence
from pathlib import Path

import flax.linen as nn
import numpy as np

from transformer.data.tokenizer import END, START, UNKNOWN
from transformer.errors import optional
from transformer.models import boxes
from transformer.tools.convert import forms, matrices

# The fewest positions in the table. By default CTranslate2 reads 1024 pieces of a source and writes
# 256 of an output; at a position beyond the table it raises an error.
FEWEST = 1024
# {activation: its number in common_spec.Activation}
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}
# {module of a layer: (CTranslate2's module, the part of its array)}: CTranslate2 stacks query, key
# and value of self-attention in one matrix, and key and value of cross-attention in another.
MODULES = {
    "self_attention/query": ("self_attention/linear_0", 0),
    "self_attention/key": ("self_attention/linear_0", 1),
    "self_attention/value": ("self_attention/linear_0", 2),
    "self_attention/output": ("self_attention/linear_1", 0),
    "self_attention_residual/layer_norm": ("self_attention/layer_norm", 0),
    "cross_attention/query": ("attention/linear_0", 0),
    "cross_attention/key": ("attention/linear_1", 0),
    "cross_attention/value": ("attention/linear_1", 1),
    "cross_attention/output": ("attention/linear_2", 0),
    "cross_attention_residual/layer_norm": ("attention/layer_norm", 0),
    "feed_forward/inner": ("ffn/linear_0", 0),
    "feed_forward/outer": ("ffn/linear_1", 0),
    "feed_forward_residual/layer_norm": ("ffn/layer_norm", 0),
}
# {param outside the layers: CTranslate2's array}, which is not stacked.
WHOLE = {
    "output_bias": "decoder/projection/bias",
    "source_embedding/embedding": "encoder/embeddings_0/weight",
    "target_embedding/embedding": "decoder/embeddings/weight",
    "output_embedding/embedding": "decoder/projection/weight",
    "encoder/norm/scale": "encoder/layer_norm/gamma",
    "encoder/norm/bias": "encoder/layer_norm/beta",
    "decoder/norm/scale": "decoder/layer_norm/gamma",
    "decoder/norm/bias": "decoder/layer_norm/beta",
}
# Learned position embeddings, the table of each half.
POSITIONS = ("source_positions/embedding", "target_positions/embedding")


def check(model: nn.Module) -> None:
    """Raises UserError for a model that cannot be exported to CTranslate2."""
    allowed = {
        "residual": ("post", "pre"),
        "final_norm": (False, True),
        "positions": ("interleaved", "halves", "concatenated", "learned"),
        "feed_forward": tuple(ACTIVATIONS),
    }
    forms.check(model, "CTranslate2", allowed, "safetensors")


def write(
    folder: Path,
    model: nn.Module,
    params: dict[str, np.ndarray],
    pieces: Sequence[Sequence[str]],
    quantization: str = "float32",
    num_positions: int = 0,
) -> None:
    """Writes the files that ctranslate2.Translator loads into a folder, which must exist.

    `params` are {path: array}; `pieces` are those of source and target in the order of their ids.
    Position encodings are stored as a table of `num_positions` rows, at least FEWEST, or as the
    learned table.
    """
    check(model)
    specs = optional("ctranslate2.specs", "ctranslate2", "config.export.format=ctranslate2")
    options = model.options
    spec = specs.transformer_spec.TransformerSpec.from_config(
        (options.num_layers, model.decoder_options.num_layers),
        options.num_heads,
        pre_norm=options.residual == "pre",
        no_final_norm=not options.final_norm,
        activation=ACTIVATIONS[boxes.parse("feed_forward", options.feed_forward)[0].name],
    )
    parts = {}  # {name in CTranslate2: {part: array}}
    for path, array in params.items():
        if path not in POSITIONS:
            name, part = place_of(path)
            parts.setdefault(name, {})[part] = matrices.to_foreign(path, array)
    # A tied matrix is one param, but CTranslate2 stores it under each of its names.
    tied = {0: params["target_embedding/embedding"]}
    parts.setdefault("encoder/embeddings_0/weight", tied)
    parts.setdefault("decoder/projection/weight", tied)
    # Stack the outputs: query, key and value [D, D] give [3D, D], their biases [D] give [3D].
    for name, arrays in parts.items():
        place, _, variable = name.rpartition("/")
        array = np.concatenate([arrays[part] for part in sorted(arrays)])
        array = np.ascontiguousarray(array, np.float32)
        setattr(specs.model_spec.index_spec(spec, place), variable, array)
    sinusoids_PD = None
    if options.positions != "learned":
        encoding = boxes.part("positions", options.positions, options=options)(parent=None)
        [sinusoids_PD] = np.asarray(encoding.encode(np.arange(max(num_positions, FEWEST))[None]))
    for half, path in zip(("encoder", "decoder"), POSITIONS, strict=True):
        getattr(spec, half).position_encodings.encodings = params.get(path, sinusoids_PD)
    spec.config.layer_norm_epsilon = boxes.parse("norm", options.norm)[0].fields["epsilon"]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[1][START]
    spec.config.eos_token, spec.config.unk_token = pieces[1][END], pieces[1][UNKNOWN]
    # Our encoder reads END after the source, which callers of Translator do not pass.
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(list(pieces[0]))
    spec.register_target_vocabulary(list(pieces[1]))
    # The order of CTranslate2's own converters: validate, optimize, save.
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))


def place_of(path: str) -> tuple[str, int]:
    """Returns CTranslate2's name of the array that holds a param, and the param's part in it.

    Example: encoder/layers_0/self_attention/key/kernel is part 1 of
    encoder/layer_0/self_attention/linear_0/weight. UserError for a param that CTranslate2 cannot
    represent.
    """
    if path in WHOLE:
        return WHOLE[path], 0
    # The bias of a LayerNorm is called beta, that of a projection bias.
    half, layer, module, name = forms.in_layer(path, MODULES, "CTranslate2")
    place, part = MODULES[module]
    names = {"kernel": "weight", "scale": "gamma", "bias": "beta" if "norm" in module else "bias"}
    return f"{half}/layer_{layer}/{place}/{names[name]}", part
