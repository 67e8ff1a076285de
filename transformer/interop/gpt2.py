"""Hugging Face's GPT-2: our decoder-only language model as a folder that GPT2LMHeadModel loads.

Ours multiplies embeddings by sqrt(d_model), theirs does not: the factor goes into their tables, so
that their output matrix is a table of its own.
"""

from pathlib import Path

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.characters import Characters
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.interop import arrays, layout, tokenizer_json
from transformer.interop.foreign import PRE_NORM, check_form
from transformer.interop.marian_config import ACTIVATIONS, activation_of
from transformer.storage import json_files

FORM = {
    **PRE_NORM,
    "activation": tuple(ACTIVATIONS.values()),
    **{"score": ("scaled_dot", "dot"), "positions": ("learned", *layout.SINUSOIDS, "none")},
    "vocab_size": (),
}
# {their module: ours}, in each layer.
NORMS = {
    "ln_1": "self_attention_residual/layer_norm",
    "ln_2": "feed_forward_residual/layer_norm",
}


def write(
    folder: Path,
    model: nn.Module,
    params: dict[str, np.ndarray],
    vocabulary: tokenizer.Pieces | Characters,
    *,
    context: int,
    end_at_line: bool,
) -> None:
    """Writes a folder that GPT2LMHeadModel and AutoTokenizer load; UserError for another form.

    `context` is how many tokens the model sees, `end_at_line` whether a line break ends a text that
    is generated.
    """
    check_form(model, "Hugging Face's GPT-2", FORM, "safetensors")
    written = arrays_of(model, params, context)
    arrays.write(folder / "model.safetensors", written)
    ids = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD}
    json_files.write(
        folder / "config.json",
        {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": model.vocab_size,
            "n_positions": len(written["transformer.wpe.weight"]),
            "n_embd": model.d_model,
            "n_inner": model.d_ff,
            "n_layer": model.num_layers,
            "n_head": model.num_heads,
            "activation_function": activation_of(model),
            "layer_norm_epsilon": model.norm_epsilon,
            "scale_attn_weights": model.score == "scaled_dot",
            "embd_pdrop": model.dropout_rate,
            "resid_pdrop": model.dropout_rate,
            "attn_pdrop": model.attention_dropout_rate,
            "tie_word_embeddings": False,
            **ids,
            "torch_dtype": "float32",
        },
    )
    never = {"suppress_tokens": [PAD, UNKNOWN, START]}
    ids["eos_token_id"] = END if end_at_line else None
    json_files.write(folder / "generation_config.json", {**ids, **never, "max_length": context})
    tokenizer_json.write(folder, vocabulary, max_length=context, lines=True)


def arrays_of(
    model: nn.Module, params: dict[str, np.ndarray], context: int
) -> dict[str, np.ndarray]:
    """Returns their arrays, {name: array}; their matrices are [in, out], as ours are."""
    embedding, scale = params["embedding/embedding"], model.d_model**0.5
    positions_PD = layout.positions(model, params, context)
    if model.positions == "learned":
        positions_PD = positions_PD * scale
    written = {
        "transformer.wte.weight": embedding * scale,
        "transformer.wpe.weight": positions_PD,
        "lm_head.weight": params.get("output_embedding/embedding", embedding),
    }

    def linear(name: str, *paths: str) -> None:
        maps = [layout.linear(params, path) for path in paths]
        written[f"transformer.{name}.weight"] = np.concatenate([matrix for matrix, _ in maps]).T
        written[f"transformer.{name}.bias"] = np.concatenate([bias for _, bias in maps])

    for i in range(model.num_layers):
        ours, theirs = f"decoder/layers_{i}", f"h.{i}"
        heads = (f"{ours}/self_attention/{name}" for name in ("query", "key", "value"))
        linear(f"{theirs}.attn.c_attn", *heads)
        linear(f"{theirs}.attn.c_proj", f"{ours}/self_attention/output")
        linear(f"{theirs}.mlp.c_fc", f"{ours}/feed_forward/inner")
        linear(f"{theirs}.mlp.c_proj", f"{ours}/feed_forward/outer")
    norms = layout.layers("transformer.h", "decoder", model.num_layers, NORMS)
    return written | layout.modules(params, norms | {"transformer.ln_f": "decoder/norm"})
