"""Floating-point operations of a training step, counted from the layers' sizes."""

from typing import Any

from transformer.models.transformer import Transformer

Tree = Any


def step_flops(model: Transformer, rows: int, source_length: int, target_length: int) -> int:
    """The FLOPs of one training step, a multiply-add counted as two.

    Only products of matrices count, attention between all positions of a row; the backward pass is
    two of the forward pass, and recomputation is no work.
    """
    B, S, T = rows, source_length, target_length
    D, F, L, V = model.d_model, model.d_ff, model.num_layers, model.target_vocab_size
    K, C = (
        model.num_heads * (size or D // model.num_heads)
        for size in (model.key_size, model.value_size)
    )

    def attention(queries: int, keys: int) -> int:
        projections = queries * D * (K + C) + keys * D * (K + C)
        return 2 * B * (projections + queries * keys * (K + C))

    network = 2 * B * 2 * D * F
    encoder = attention(S, S) + S * network
    decoder = attention(T, T) + attention(T, S) + T * network
    return 3 * (L * (encoder + decoder) + 2 * B * T * D * V)
