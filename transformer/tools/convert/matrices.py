"""Converts the arrays of a Transformer between another program's layout and ours.

Other programs store a linear map as a matrix [out, in], y = W x + b. Our kernels have the inputs
first: [D, H, K] of a query, [H, C, D] of an attention's output, [in, out] of the feed-forward
network.
"""

import math

import numpy as np


def to_foreign(path: str, array: np.ndarray) -> np.ndarray:
    """Returns our kernel as a matrix [out, in], and a bias of heads [H, K] as a vector.

    `path` is the param's; tables of embeddings have the same layout in other programs.
    """
    if path.endswith("embedding"):
        return array
    # A query [D, H, K] becomes [D, H K], and transposed [H K, D].
    return np.ascontiguousarray(array.reshape(foreign_shape(path, array.shape)[::-1]).T)


def foreign_shape(path: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape that `to_foreign` gives a kernel or a bias of the shape `shape`."""
    if not path.endswith("kernel"):
        return (math.prod(shape),)
    # An attention's output [H, C, D] has two axes of inputs, other kernels have one.
    input_axes = len(shape) - 1 if "attention/output" in path else 1
    inputs = math.prod(shape[:input_axes])
    return math.prod(shape) // inputs, inputs


def from_foreign(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a matrix [out, in] as our kernel of the shape `shape`, and a vector as a bias."""
    return np.ascontiguousarray(array.T).reshape(shape)


def sinusoids(count: int, d_model: int) -> np.ndarray:
    """Returns Marian's sinusoids [P, D] of `count` positions."""
    from transformer.families.parts.other_positions import halves

    return np.array(halves(np.arange(count), d_model))


def are_sinusoids(table: np.ndarray, d_model: int, first: int) -> bool:
    """Returns whether a table [P, D] has the sinusoids in 'halves' from position `first` on."""
    if table.ndim != 2 or table.shape[1] != d_model or not len(table):
        return False
    # The tolerance covers a table in bfloat16, whose values are off by up to 2^-9 (0.002), and the
    # angles of far positions, which float32 rounds: waves are off by 0.001 at position 16,000.
    waves_PD = sinusoids(len(table), d_model)
    return np.allclose(table[first:], waves_PD[first:], atol=4e-3)


def to_halves(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Turns params for 'interleaved' sinusoids into those of the same function with 'halves'.

    In the paper sines and cosines alternate along d_model; in 'halves' all sines come first. Hence
    every param along d_model is permuted alike: embeddings, inputs and outputs of sublayers, and
    LayerNorm.
    """
    moved = dict(params)
    for path, array in params.items():
        if (axis := _axis_of_d_model(path, array)) is not None:
            # d_model = 6 is put into the order 0 2 4 1 3 5.
            D = array.shape[axis]
            order = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])
            moved[path] = np.take(array, order, axis=axis)
    return moved


def _axis_of_d_model(path: str, array: np.ndarray) -> int | None:
    """Returns the axis of a param that runs along d_model, or None."""
    if path == "output_bias":
        return None
    module, name = path.split("/")[-2:]
    if name == "embedding":
        return 1
    # Kernels [D, H, K] and [D, F]; their biases [H, K] and [F] have no d_model.
    if module in ("query", "key", "value", "inner"):
        return 0 if name == "kernel" else None
    # Kernels [H, C, D] and [F, D], their biases [D], and scale and bias of LayerNorm [D].
    return array.ndim - 1
