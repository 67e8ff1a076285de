"""Hugging Face's MegatronBERT: our masked language model as a folder that MegatronBertForMaskedLM
loads.

It is BERT with LayerNorm before each sub-layer, and none behind the embeddings, as ours. Our factor
sqrt(d_model) of the embeddings goes into their tables, so that the output matrix is one of its own.
"""

from pathlib import Path

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.characters import Characters
from transformer.data.tokenizer import PAD
from transformer.runtime import json_files
from transformer.tools.convert import arrays, matrices, tokenizer_json
from transformer.tools.convert.foreign import PRE_NORM, check_form
from transformer.tools.convert.marian_config import ACTIVATIONS, activation_of

FORM = {
    **PRE_NORM,
    "activation": tuple(ACTIVATIONS.values()),
    **{"score": ("scaled_dot",), "positions": ("learned", *matrices.SINUSOIDS, "none")},
    **{"vocab_size": (), "mask_share": ()},
}
# {their module: ours}, in each layer.
LAYER = {
    "attention.ln": ("self_attention_residual/layer_norm",),
    **{f"attention.self.{x}": (f"self_attention/{x}",) for x in ("query", "key", "value")},
    "attention.output.dense": ("self_attention/output",),
    "ln": ("feed_forward_residual/layer_norm",),
    "intermediate.dense": ("feed_forward/inner",),
    "output.dense": ("feed_forward/outer",),
}
HEAD = "cls.predictions"
POSITIONS = "bert.embeddings.position_embeddings.weight"


def check(model: nn.Module) -> None:
    """Raises UserError for a model that cannot be exported to MegatronBERT."""
    check_form(model, "Hugging Face's MegatronBERT", FORM, "safetensors")


def write(
    folder: Path,
    model: nn.Module,
    params: dict[str, np.ndarray],
    vocabulary: tokenizer.Pieces | Characters,
    *,
    max_length: int,
) -> None:
    """Writes a folder that MegatronBertForMaskedLM and AutoTokenizer load.

    UserError for a model of another form. `max_length` is how many ids a text has at most.
    """
    check(model)
    options = model.options
    written = matrices.arrays_of(table(model, max_length), params)
    arrays.write(folder / "model.safetensors", written)
    json_files.write(
        folder / "config.json",
        {
            "architectures": ["MegatronBertForMaskedLM"],
            "model_type": "megatron-bert",
            "vocab_size": model.vocab_size,
            "max_position_embeddings": len(written[POSITIONS]),
            "type_vocab_size": 1,
            "hidden_size": options.d_model,
            "intermediate_size": options.d_ff,
            "num_hidden_layers": options.num_layers,
            "num_attention_heads": options.num_heads,
            "hidden_act": activation_of(model),
            "layer_norm_eps": options.norm_epsilon,
            "hidden_dropout_prob": options.dropout_rate,
            "attention_probs_dropout_prob": options.attention_dropout_rate,
            "tie_word_embeddings": False,
            "pad_token_id": PAD,
            "torch_dtype": "float32",
        },
    )
    tokenizer_json.write(folder, vocabulary, max_length=max_length, mask=True)


def table(model: nn.Module, max_length: int = 0) -> matrices.Table:
    """Returns where MegatronBertForMaskedLM has our params."""
    options, words = model.options, "embedding/embedding"
    arrays = {
        "bert.embeddings.word_embeddings.weight": matrices.scaled(words, options.d_model**0.5),
        f"{HEAD}.decoder.weight": matrices.scaled(words),
        f"{HEAD}.decoder.bias": matrices.scaled("head/bias"),
        f"{HEAD}.bias": matrices.scaled("head/bias"),
    }
    if options.positions == "learned":
        arrays[POSITIONS] = matrices.scaled("add_positions/embedding")
    constants = {
        "bert.embeddings.token_type_embeddings.weight": np.zeros((1, options.d_model)),
        POSITIONS: matrices.fixed_positions(model, max_length),
    }
    modules = {
        **matrices.layers("bert.encoder.layer", "encoder", options.num_layers, LAYER),
        "bert.encoder.ln": ("encoder/norm",),
        f"{HEAD}.transform.dense": ("head/transform",),
        f"{HEAD}.transform.LayerNorm": ("head/norm",),
    }
    return matrices.Table(modules, arrays, constants)
