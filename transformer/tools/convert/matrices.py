"""How the arrays of a Transformer in another program lie in ours.

Other programs have a linear map as a matrix [out, in] with y = W x + b. Ours are kernels: of a
query [D, H, K], of an attention's output [H, C, D], of the feed-forward network [in, out].
"""

import math

import flax.linen as nn
import numpy as np

from transformer.models.positions import sinusoids

SINUSOIDS = ("interleaved", "halves", "concatenated")


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


def linear(params: dict[str, np.ndarray], path: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a linear map's matrix [out, in], and its bias: zeros where ours has none."""
    weights_OI = matrix(path, params[f"{path}/kernel"])
    bias = params.get(f"{path}/bias", np.zeros(len(weights_OI), np.float32))
    return weights_OI, bias.reshape(-1)


def modules(
    params: dict[str, np.ndarray], paths: dict[str, tuple[str, ...]]
) -> dict[str, np.ndarray]:
    """Returns the weights and biases of linear maps and normalisations; `paths` has ours by theirs.

    Example: {"classifier": ("head",)} gives classifier.weight and classifier.bias. Of several of
    ours theirs is one, with their outputs one behind the other.
    """
    written = {}
    for name, ours in paths.items():
        weights, biases = zip(*(_module(params, path) for path in ours), strict=True)
        written[f"{name}.weight"] = np.concatenate(weights)
        written[f"{name}.bias"] = np.concatenate(biases)
    return written


def _module(params: dict[str, np.ndarray], path: str) -> tuple[np.ndarray, np.ndarray]:
    if f"{path}/scale" in params:
        return params[f"{path}/scale"], params[f"{path}/bias"]
    return linear(params, path)


def params_of(
    arrays: dict[str, np.ndarray],
    paths: dict[str, tuple[str, ...]],
    shapes: dict[str, tuple[int, ...]],
) -> dict[str, np.ndarray]:
    """Returns our params of what `modules` has written; `shapes` are {path: shape} of all params.

    KeyError or ValueError for an array that is missing or has another shape.
    """
    params = {}
    for name, ours in paths.items():
        parts = (np.split(arrays[f"{name}.{x}"], len(ours)) for x in ("weight", "bias"))
        for path, weight, bias in zip(ours, *parts, strict=True):
            if f"{path}/scale" in shapes:
                params[f"{path}/scale"] = weight
            else:
                params[f"{path}/kernel"] = kernel(weight, shapes[f"{path}/kernel"])
            if f"{path}/bias" in shapes:
                params[f"{path}/bias"] = bias.reshape(shapes[f"{path}/bias"])
    return params


def layers(
    theirs: str, ours: str, count: int, paths: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Returns the paths for `modules` of `count` layers alike; `paths` are those within a layer."""
    return {
        f"{theirs}.{i}.{name}": tuple(f"{ours}/layers_{i}/{part}" for part in parts)
        for i in range(count)
        for name, parts in paths.items()
    }


def positions(model: nn.Module, params: dict[str, np.ndarray], count: int) -> np.ndarray:
    """Returns the positions of a model without source as a table: what is added to its input.

    Learned ones have as many rows as were learned, sinusoids and 'none' (zeros) have `count`.
    """
    D, kind = model.options.d_model, model.options.positions
    if kind == "learned":
        return params["add_positions/embedding"]
    if kind == "none":
        return np.zeros((count, D), np.float32)
    return np.asarray(sinusoids(np.arange(count)[None], D, kind))[0]


def are_sinusoids(table: np.ndarray, d_model: int, kind: str, first: int) -> bool:
    """Returns whether a table [P, D] holds the sinusoids of this kind from position `first` on."""
    if table.ndim != 2 or table.shape[1] != d_model:
        return False
    waves_1PD = sinusoids(np.arange(len(table))[None] + first, d_model, kind)
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
    """Returns which axis of a parameter is d_model; None if it has no such axis."""
    if path == "output_bias":
        return None
    module, name = path.split("/")[-2:]
    if name == "embedding":
        return 1
    if module in ("query", "key", "value", "inner"):
        return 0 if name == "kernel" else None
    return array.ndim - 1  # kernels and biases of outputs, and normalisations
