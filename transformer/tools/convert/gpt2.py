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
from transformer.runtime import json_files
from transformer.tools.convert import arrays, matrices, tokenizer_json
from transformer.tools.convert.foreign import PRE_NORM, check_form
from transformer.tools.convert.marian_config import ACTIVATIONS, activation_of

FORM = {
    **PRE_NORM,
    "activation": tuple(ACTIVATIONS.values()),
    **{"score": ("scaled_dot", "dot"), "positions": ("learned", *matrices.SINUSOIDS, "none")},
    "vocab_size": (),
}
POSITIONS = "transformer.wpe.weight"
# {their module: ours}, in each layer.
LAYER = {
    "ln_1": ("self_attention_residual/layer_norm",),
    "attn.c_attn": tuple(f"self_attention/{name}" for name in ("query", "key", "value")),
    "attn.c_proj": ("self_attention/output",),
    "ln_2": ("feed_forward_residual/layer_norm",),
    "mlp.c_fc": ("feed_forward/inner",),
    "mlp.c_proj": ("feed_forward/outer",),
}


def check(model: nn.Module) -> None:
    """Raises UserError for a model that cannot be exported to GPT-2."""
    check_form(model, "Hugging Face's GPT-2", FORM, "safetensors")


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
    check(model)
    options = model.options
    written = matrices.arrays_of(table(model, context), params)
    arrays.write(folder / "model.safetensors", written)
    ids = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD}
    json_files.write(
        folder / "config.json",
        {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": model.vocab_size,
            "n_positions": len(written[POSITIONS]),
            "n_embd": options.d_model,
            "n_inner": options.d_ff,
            "n_layer": options.num_layers,
            "n_head": options.num_heads,
            "activation_function": activation_of(model),
            "layer_norm_epsilon": options.norm_epsilon,
            "scale_attn_weights": options.score == "scaled_dot",
            "embd_pdrop": options.dropout_rate,
            "resid_pdrop": options.dropout_rate,
            "attn_pdrop": options.attention_dropout_rate,
            "tie_word_embeddings": False,
            **ids,
            "torch_dtype": "float32",
        },
    )
    never = {"suppress_tokens": [PAD, UNKNOWN, START]}
    ids["eos_token_id"] = END if end_at_line else None
    json_files.write(folder / "generation_config.json", {**ids, **never, "max_length": context})
    tokenizer_json.write(folder, vocabulary, max_length=context, lines=True)


def table(model: nn.Module, context: int = 0) -> matrices.Table:
    """Returns where GPT2LMHeadModel has our params."""
    options, scale = model.options, model.options.d_model**0.5
    output = "embedding" if model.tied_embeddings else "output_embedding"
    arrays = {
        "transformer.wte.weight": matrices.scaled("embedding/embedding", scale),
        "lm_head.weight": matrices.scaled(f"{output}/embedding"),
    }
    if options.positions == "learned":
        arrays[POSITIONS] = matrices.scaled("add_positions/embedding", scale)
    layers = matrices.layers("transformer.h", "decoder", options.num_layers, LAYER)
    modules = {**layers, "transformer.ln_f": ("decoder/norm",)}
    constants = {POSITIONS: matrices.fixed_positions(model, context)}
    return matrices.Table(modules, arrays, constants, transposed=True)
