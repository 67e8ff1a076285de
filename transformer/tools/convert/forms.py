"""Refuses models that another program cannot represent, in one line that names the reason.

A fork may add a field or a param that changes the function. An export without it would be silently
wrong.
"""

import re
from collections.abc import Collection

import flax.linen as nn

from transformer import registry
from transformer.errors import UserError
from transformer.models import boxes, fields
from transformer.workdir import config_files

# Fields that may have any value, because every program can represent them, or they change no
# output. `max_positions` counts only with some values of `positions`, which is checked.
ANY = {
    *("d_model", "d_ff", "num_heads", "num_layers", "num_decoder_layers", "key_size", "value_size"),
    *("source_vocab_size", "target_vocab_size", "max_positions"),
    *("tied_embeddings", "attention_bias", "output_bias"),
    *("dropout_rate", "attention_dropout_rate", "activation_dropout_rate", "dtype", "remat"),
}
# Boxes in which no program can represent another part than the paper's.
PAPER = {"norm": ("layer",), "score": ("scaled_dot",), "mixer": ("attention",)}


def check(model: nn.Module, program: str, allowed: dict[str, tuple], formats: str) -> None:
    """Raises UserError for a model that another program cannot represent.

    `allowed` has {field: the values that the program can represent}, or {box: the names of parts},
    for fields outside ANY and PAPER. Any other field must have its default, which must be False, 0
    or "". If a field of `allowed` has another value, the message proposes `formats`, values of
    config.export.format. The program's heads have the size d_model / num_heads.
    """
    # A fork's field is known from the configs only. If its default is off, the model stays the
    # paper's.
    defaults = config_files.default_config("translation").model
    off = {name: (value,) for name, value in defaults.items() if not value}
    known = {**off, **PAPER, **allowed}
    for name, value in fields.values(model).items():
        if name in registry.PARTS:
            value = ",".join(sorted({x.name for x in boxes.parse(name, value)}))
        values = known.get(name, ())
        if name not in ANY and value not in values:
            only = f", only {', '.join(map(repr, values))}" if values else ""
            raise UserError(
                f"{program} cannot represent config.model.{name}={value!r}{only}: use "
                f"--config.export.format={formats if name in allowed else 'safetensors'}"
            )
    options = model.options
    # A size of 0 stands for d_model / num_heads.
    if {options.key_size, options.value_size} - {0, options.d_model / options.num_heads}:
        raise UserError(f"{program} needs config.model.key_size and value_size to be 0")


def in_layer(path: str, modules: Collection[str], program: str) -> tuple[str, str, str, str]:
    """Splits the path of a layer's param into half, number of the layer, module, and name.

    Example: encoder/layers_0/self_attention/query/kernel becomes encoder, 0, self_attention/query
    and kernel. UserError for a param outside `modules`, those that `program` can represent.
    """
    # LayerNorm has scale and bias; projections have kernel and bias.
    match = re.fullmatch(r"(encoder|decoder)/layers_(\d+)/(.+)/(\w+)", path)
    is_known = match and match[3] in modules
    if not is_known or match[4] not in ("scale" if "norm" in match[3] else "kernel", "bias"):
        raise UserError(
            f"{program} cannot represent the parameter {path}: use "
            "--config.export.format=safetensors"
        )
    return match.groups()
