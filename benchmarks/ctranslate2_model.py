"""A Transformer's parameters as a CTranslate2 model: what our decoding is measured against."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec

from transformer.data import tokenizer
from transformer.models.positions import sinusoids
from transformer.models.transformer import Transformer

Tree = dict


def save(folder: Path, model: Transformer, parameters: Tree, pieces: Sequence[str]) -> None:
    """Writes what ctranslate2.Translator loads; `pieces` are those of the shared vocabulary."""
    spec = transformer_spec.TransformerSpec.from_config(
        model.num_layers,
        model.num_heads,
        pre_norm=model.norm == "pre",
        no_final_norm=not model.final_norm,
        activation=common_spec.Activation[model.activation.upper()],
    )
    parameters = {name: _float32(value) for name, value in parameters.items()}
    embedding = parameters["target_embedding"]["embedding"]
    positions = np.asarray(sinusoids(np.arange(512)[None], model.d_model, model.positions))
    for name, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = side.embeddings[0] if name == "encoder" else side.embeddings
        embeddings.weight = embedding
        side.position_encodings.encodings = positions[0]
        for i, layer in enumerate(side.layer):
            ours = parameters[name][f"layers_{i}"]
            _attention(layer.self_attention, ours, "self_attention")
            if name == "decoder":
                _attention(layer.attention, ours, "cross_attention")
            _linear(layer.ffn.linear_0, ours["feed_forward"]["inner"])
            _linear(layer.ffn.linear_1, ours["feed_forward"]["outer"])
            _norm(layer.ffn.layer_norm, ours["feed_forward_residual"]["layer_norm"])
        if model.final_norm:
            _norm(side.layer_norm, parameters[name]["norm"])
    spec.decoder.projection.weight = embedding
    spec.config.layer_norm_epsilon = model.norm_epsilon
    spec.config.bos_token = spec.config.decoder_start_token = pieces[tokenizer.START]
    spec.config.eos_token = pieces[tokenizer.END]
    spec.config.unk_token = pieces[tokenizer.UNKNOWN]
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _float32(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {name: _float32(value) for name, value in tree.items()}
    return np.asarray(tree, np.float32)


def _attention(spec: object, layer: Tree, name: str) -> None:
    parts = {}
    for part in ("query", "key", "value"):
        linear = common_spec.LinearSpec()
        kernel = layer[name][part]["kernel"]
        _linear(linear, {**layer[name][part], "kernel": kernel.reshape(len(kernel), -1)})
        parts[part] = linear
    if name == "self_attention":
        utils.fuse_linear(spec.linear[0], list(parts.values()))
    else:
        utils.fuse_linear(spec.linear[0], [parts["query"]])
        utils.fuse_linear(spec.linear[1], [parts["key"], parts["value"]])
    kernel = layer[name]["output"]["kernel"]
    output = {**layer[name]["output"], "kernel": kernel.reshape(-1, kernel.shape[-1])}
    _linear(spec.linear[-1], output)
    _norm(spec.layer_norm, layer[f"{name}_residual"]["layer_norm"])


def _linear(spec: common_spec.LinearSpec, ours: Tree) -> None:
    spec.weight = np.ascontiguousarray(ours["kernel"].T)
    if "bias" in ours:
        spec.bias = ours["bias"].reshape(-1)


def _norm(spec: common_spec.LayerNormSpec, ours: Tree) -> None:
    spec.gamma, spec.beta = ours["scale"], ours["bias"]
