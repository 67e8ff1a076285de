"""Batches -> logits. `config.architecture` names a class of ARCHITECTURES, `config.model` its
fields."""

import difflib

import flax.linen as nn

from transformer.models.translation import Transformer

ARCHITECTURES = {"transformer": Transformer}


def build(architecture: str, fields: dict, **sizes: int) -> nn.Module:
    """The model of that name; `sizes` are those the data has (source_vocab_size,
    target_vocab_size)."""
    if architecture not in ARCHITECTURES:
        nearest = difflib.get_close_matches(architecture, ARCHITECTURES, 1, 0) or [""]
        raise ValueError(
            f"config.architecture is one of {', '.join(ARCHITECTURES)}, found {architecture!r}; "
            f"did you mean {nearest[0]!r}?"
        )
    return ARCHITECTURES[architecture](**fields, **sizes)
