"""How the arrays of a Transformer in another program lie in ours.

Other programs have a linear map as a matrix [out, in] with y = W x + b. Ours are kernels: of a
query [D, H, K], of an attention's output [H, C, D], of the feed-forward network [in, out].
"""

import math

import numpy as np

from transformer.models.positions import sinusoids


def theirs(path: str, array: np.ndarray) -> np.ndarray:
    """Returns our kernel as a matrix [out, in], and a bias of heads [H, K] as a vector.

    `path` says which array it is; a table of embeddings is a matrix here and there.
    """
    if path.endswith("embedding"):
        return array
    return np.ascontiguousarray(array.reshape(their_shape(path, array.shape)[::-1]).T)


def their_shape(path: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of `theirs` of a kernel or a bias of this shape."""
    if not path.endswith("kernel"):
        return (math.prod(shape),)
    inputs = len(shape) - 1 if "attention/output" in path else 1  # [H, C, D] has two of inputs
    size = math.prod(shape[:inputs])
    return math.prod(shape) // size, size


def ours(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a matrix [out, in] as our kernel of this shape, inputs first; a vector as a bias."""
    return np.ascontiguousarray(array.T).reshape(shape)


def are_sinusoids(table: np.ndarray, d_model: int, first: int) -> bool:
    """Returns whether a table [P, D] holds the sinusoids in 'halves' from position `first` on."""
    if table.ndim != 2 or table.shape[1] != d_model or not len(table):
        return False
    waves_1PD = sinusoids(np.arange(len(table))[None], d_model, "halves")
    return np.allclose(table[first:], waves_1PD[0, first:], atol=1e-3)


def halves(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the params of the same function with sinusoids in 'halves', not 'interleaved'.

    Sines and cosines alternate in the paper's d_model; here all sines come first. So whatever is
    added to the positions, reads them or normalises them is put into the order 0 2 4 ... 1 3 5 ...
    """
    moved = dict(params)
    for path, array in params.items():
        if (axis := _axis_of_d_model(path, array)) is not None:
            D = array.shape[axis]
            order = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])
            moved[path] = np.take(array, order, axis=axis)
    return moved


def _axis_of_d_model(path: str, array: np.ndarray) -> int | None:
    """Returns the axis of a param that is d_model; None if there is none."""
    if path == "output_bias":
        return None
    module, name = path.split("/")[-2:]
    if name == "embedding":
        return 1
    if module in ("query", "key", "value", "inner"):
        return 0 if name == "kernel" else None
    return array.ndim - 1  # kernels and biases of outputs, and normalisations
