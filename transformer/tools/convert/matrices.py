"""How the arrays of a Transformer in another program lie in ours.

Other programs have a linear map as a matrix [out, in] with y = W x + b. Ours are kernels: of a
query [D, H, K], of an attention's output [H, C, D], of the feed-forward network [in, out].
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import numpy as np

from transformer.errors import UserError
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


class Table(NamedTuple):
    """Where another program has our params; `arrays_of` writes by it, and `params_of` reads."""

    # {their module, a linear map or a normalisation: ours}; of several theirs is one, with their
    # outputs one behind the other.
    modules: dict[str, tuple[str, ...]]
    # {their array: (ours, what makes theirs of it, what makes ours of theirs)}
    arrays: dict[str, tuple[str, Callable, Callable]]
    constants: dict[str, np.ndarray]  # which are not read
    transposed: bool = False  # matrices are [in, out] there


def scaled(path: str, factor: float = 1.0) -> tuple[str, Callable, Callable]:
    """Returns the entry of an array that is ours times a factor."""
    return path, lambda x: x * factor, lambda x: x / factor


def arrays_of(table: Table, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns their arrays of our params; UserError for a param that the table does not have.

    Example: with modules {"classifier": ("head",)} they are classifier.weight and classifier.bias,
    which is zeros where ours has none.
    """
    arrays, written = dict(table.constants), {path for path, *_ in table.arrays.values()}
    for name, ours in table.modules.items():
        weights, biases = zip(*(_module(params, path) for path in ours), strict=True)
        weight = np.concatenate(weights)
        arrays[f"{name}.weight"] = weight.T if table.transposed else weight
        arrays[f"{name}.bias"] = np.concatenate(biases)
        written |= {f"{path}/{name}" for path in ours for name in ("scale", "kernel", "bias")}
    if unknown := sorted(params.keys() - written):
        raise UserError(
            f"the parameter {unknown[0]} has no form there: use --config.export.format=safetensors"
        )
    return arrays | {name: to(params[path]) for name, (path, to, _) in table.arrays.items()}


def _module(params: dict[str, np.ndarray], path: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a matrix [out, in] or a scale, and the bias."""
    if (weight := params.get(f"{path}/scale")) is None:
        weight = matrix(path, params[f"{path}/kernel"])
    return weight, params.get(f"{path}/bias", np.zeros(len(weight), np.float32)).reshape(-1)


def params_of(
    table: Table, arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Returns our params of their arrays; `shapes` are {path: shape} of all params.

    KeyError or ValueError for an array that is missing or has another shape.
    """
    params = {path: back(arrays[name]) for name, (path, _, back) in table.arrays.items()}
    for name, ours in table.modules.items():
        weight = arrays[f"{name}.weight"]
        weights = np.split(weight.T if table.transposed else weight, len(ours))
        biases = np.split(arrays[f"{name}.bias"], len(ours))
        for path, weight, bias in zip(ours, weights, biases, strict=True):
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
    """Returns the `modules` of `count` layers alike; `paths` are those within a layer."""
    return {
        f"{theirs}.{i}.{name}": tuple(f"{ours}/layers_{i}/{part}" for part in parts)
        for i in range(count)
        for name, parts in paths.items()
    }


def fixed_positions(model: nn.Module, count: int) -> np.ndarray:
    """Returns what a model without a source adds to `count` positions, where it is not learned."""
    D, kind = model.options.d_model, model.options.positions
    if kind not in SINUSOIDS:
        return np.zeros((count, D), np.float32)
    return np.asarray(sinusoids(np.arange(count)[None], D, kind))[0]


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
