"""How the arrays of a Transformer in another program lie in ours.

Other programs have a linear map as a matrix [out, in] with y = W x + b. Ours are kernels: of a
query [D, H, K], of an attention's output [H, C, D], of the feed-forward network [in, out].
"""

import math
import re
from collections.abc import Collection

import numpy as np

from transformer.errors import UserError
from transformer.models.positions import sinusoids


def in_layer(path: str, modules: Collection[str], program: str) -> tuple[str, str, str, str]:
    """Splits the path of a layer's param into half, number of the layer, module, and name.

    Example: encoder/layers_0/self_attention/query/kernel becomes encoder, 0, self_attention/query
    and kernel. UserError for a param that is not of `modules`, those that `program` has: a fork's
    layer may have one, and without it the function would be another.
    """
    match = re.fullmatch(r"(encoder|decoder)/layers_(\d+)/(.+)/(\w+)", path)
    is_known = match and match[3] in modules
    if not is_known or match[4] not in ("scale" if "norm" in match[3] else "kernel", "bias"):
        raise UserError(
            f"{program} has no form for the parameter {path}: use "
            "--config.export.format=safetensors"
        )
    return match.groups()


def kernel(matrix_OI: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a matrix [out, in] as our kernel of this shape, inputs first."""
    return np.ascontiguousarray(matrix_OI.T).reshape(shape)


def matrix(path: str, array: np.ndarray) -> np.ndarray:
    """Returns our kernel as a matrix [out, in]; `path` says which kernel it is."""
    return np.ascontiguousarray(array.reshape(matrix_shape(path, array.shape)[::-1]).T)


def matrix_shape(path: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns the shape of `matrix` of a kernel of this shape."""
    inputs = len(shape) - 1 if "attention/output" in path else 1  # [H, C, D] has two of inputs
    size = math.prod(shape[:inputs])
    return math.prod(shape) // size, size


def are_sinusoids(table: np.ndarray, d_model: int, first: int) -> bool:
    """Returns whether a table [P, D] holds the sinusoids in 'halves' from position `first` on."""
    if table.ndim != 2 or table.shape[1] != d_model:
        return False
    waves_1PD = sinusoids(np.arange(len(table))[None] + first, d_model, "halves")
    return np.allclose(table, waves_1PD[0], atol=1e-3)


def halves(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the params of the same function with sinusoids in 'halves', not 'interleaved'.

    Sines and cosines alternate in the paper's d_model; here all sines come first. So whatever is
    added to the positions, reads them or normalises them is put into the order 0 2 4 ... 1 3 5 ...
    """
    return {path: _permuted(path, array) for path, array in params.items()}


def _permuted(path: str, array: np.ndarray) -> np.ndarray:
    """Returns an array with its axis of d_model in the order of `halves`."""
    axis = _axis_of_d_model(path, array)
    if axis is None:
        return array
    D = array.shape[axis]
    return np.take(array, np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)]), axis=axis)


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
