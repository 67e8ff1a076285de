"""Batches -> logits: `config.architecture` names a class, `config.model` has its fields."""

import dataclasses

import flax.linen as nn

from transformer.errors import UserError
from transformer.models.transformer import Transformer

ARCHITECTURES = {"transformer": Transformer}


def build(architecture: str, fields: dict, **sizes: int) -> nn.Module:
    """The model of that name; `sizes` are the data's: source_vocab_size, target_vocab_size."""
    if architecture not in ARCHITECTURES:
        raise UserError(
            f"config.architecture is one of {', '.join(ARCHITECTURES)}, found {architecture!r}"
        )
    model = ARCHITECTURES[architecture]
    known = {f.name for f in dataclasses.fields(model)} - {"parent", "name", *sizes}
    for name in sorted(known ^ fields.keys()):
        lacks = f"is no field of {model.__name__}" if name in fields else "is missing"
        raise UserError(f"config.model.{name} {lacks}: the fields are {', '.join(sorted(known))}")
    return model(**fields, **sizes)
