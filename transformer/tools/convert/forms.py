"""Which models another program has a form for: anything else is refused, in one line that names it.

What a fork has added changes the function, so that leaving it out would be silent.
"""

import re
from collections.abc import Collection

import flax.linen as nn

from transformer.errors import UserError
from transformer.models import fields

# Fields that may have any value: they have a form in every program, or change no output.
# (max_positions and max_distance go with `positions`.)
ANY = {
    "d_model",
    "d_ff",
    "num_heads",
    "num_layers",
    "num_decoder_layers",
    "key_size",
    "value_size",
    "source_vocab_size",
    "target_vocab_size",
    "tied_embeddings",
    "max_positions",
    "max_distance",
    "norm_epsilon",
    "attention_bias",
    "output_bias",
    "dropout_rate",
    "attention_dropout_rate",
    "activation_dropout_rate",
    "dtype",
    "remat",
}


def check(model: nn.Module, program: str, allowed: dict[str, tuple], formats: str) -> None:
    """Raises UserError for a model that another program cannot represent.

    `allowed` are the values that each field may have there, besides ANY; a field that it lacks may
    have none. `formats` are the values of config.export.format to use instead where it has another
    value. The heads there have d_model / num_heads dimensions.
    """
    for name, value in fields.values(model).items():
        values = allowed.get(name, ())
        if name not in ANY and value not in values:
            only = f", only {', '.join(map(repr, values))}" if values else ""
            raise UserError(
                f"{program} cannot represent config.model.{name}={value!r}{only}: use "
                f"--config.export.format={formats if values else 'safetensors'}"
            )
    options = model.options
    if {options.key_size, options.value_size} - {0, options.d_model / options.num_heads}:
        raise UserError(
            f"{program} has heads of d_model / num_heads: config.model.key_size and value_size "
            "have other sizes"
        )


def in_layer(path: str, modules: Collection[str], program: str) -> tuple[str, str, str, str]:
    """Splits the path of a layer's param into half, number of the layer, module, and name.

    Example: encoder/layers_0/self_attention/query/kernel becomes encoder, 0, self_attention/query
    and kernel. UserError for a param that is not of `modules`, those that `program` has.
    """
    match = re.fullmatch(r"(encoder|decoder)/layers_(\d+)/(.+)/(\w+)", path)
    is_known = match and match[3] in modules
    if not is_known or match[4] not in ("scale" if "norm" in match[3] else "kernel", "bias"):
        raise UserError(
            f"{program} cannot represent the parameter {path}: use "
            "--config.export.format=safetensors"
        )
    return match.groups()
