"""FLOPs of a training step."""

from transformer.models.transformer import Transformer


def step_flops(model: Transformer, rows: int, source_length: int, target_length: int) -> int:
    """`Transformer.flops` of rows with as many positions on both sides."""
    assert source_length == target_length
    return model.flops(rows, source_length)
