"""Batches -> logits: `config.architecture` names a class, `config.model` has its fields."""

import flax.linen as nn

from transformer.models.translation import Transformer

ARCHITECTURES = {"transformer": Transformer}


def build(architecture: str, fields: dict, **sizes: int) -> nn.Module:
    """The model of that name; `sizes` are the data's: source_vocab_size, target_vocab_size."""
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"config.architecture is one of {', '.join(ARCHITECTURES)}, found {architecture!r}"
        )
    return ARCHITECTURES[architecture](**fields, **sizes)
