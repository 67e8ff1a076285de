"""Files of arrays: model.safetensors, or PyTorch's pytorch_model.bin without running its code."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError

# The dtypes that are read, as safetensors names them.
KINDS = ("F16", "BF16", "F32", "F64")


class Arrays(NamedTuple):
    """Holds the shapes of a file's arrays, and loads an array when it is read."""

    file: Path
    shapes: dict[str, tuple[int, ...]]
    load: Callable[[str], np.ndarray]

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Loads an array in float32.

        UserError if it is missing, has another shape (compared before loading), or is non-finite.
        """
        if self.shapes.get(name) != shape:
            actual = self.shapes.get(name)
            fault = "is missing" if actual is None else f"has the shape {list(actual)}"
            raise UserError(f"{self.file}: {name} {fault}, expected {list(shape)}")
        # A float64 such as 1e300 overflows to infinity, which is refused below.
        with np.errstate(over="ignore"):
            array = np.asarray(self.load(name), np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"{self.file}: {name} has non-finite values")
        return array

    def check_rest(self, read: set[str], fault: Callable[[str, np.ndarray], str]) -> None:
        """Checks the arrays that are not in `read`: UserError for the first with a fault.

        `fault(name, array)` says what is wrong with an array, "" for nothing. So every array of a
        file is either used or known to make no difference.
        """
        for name in sorted(self.shapes.keys() - read):
            if message := fault(name, self.read(name, self.shapes[name])):
                raise UserError(f"{self.file}: {name} {message}")


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Arrays]:
    """Opens a folder's file of arrays; reading an array that is not real floating point fails.

    UserError for a folder without such a file, and for a damaged file.
    """
    file = folder / "model.safetensors"
    if file.is_file():
        import safetensors

        try:
            with safetensors.safe_open(file, framework="flax") as arrays:
                # A slice knows its shape and its dtype without loading the array.
                slices = {name: arrays.get_slice(name) for name in arrays.offset_keys()}
                shapes = {name: tuple(x.get_shape()) for name, x in slices.items()}

                def load(name: str) -> np.ndarray:
                    _check_kind(file, name, slices[name].get_dtype() in KINDS)
                    return arrays.get_tensor(name)

                yield Arrays(file, shapes, load)
        # Also raised while the caller reads: the `yield` is inside.
        except safetensors.SafetensorError as error:
            raise UserError(f"{file} is damaged, or no safetensors file: {error}") from error
        return
    file = folder / "pytorch_model.bin"
    if not file.is_file():
        raise UserError(f"{folder} holds neither model.safetensors nor pytorch_model.bin")
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"{file} is a file of PyTorch's: install torch to read it, or convert it to "
            "model.safetensors"
        ) from error
    # weights_only: only arrays are unpickled, so that no code in the file runs. Files from before
    # PyTorch 1.6, such as most of OPUS-MT's, are not zip files and cannot be memory-mapped.
    mmap = zipfile.is_zipfile(file)
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # PyTorch and zip raise many kinds of errors for a damaged file
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise UserError(f"{file} is damaged, or holds more than arrays: {reason}") from error
    # The pickle may be any object: [(0, 0)], which is not a name and a tensor, is refused.
    named = tensors.items() if isinstance(tensors, dict) else [(0, 0)]
    if not all(isinstance(name, str) and isinstance(x, torch.Tensor) for name, x in named):
        raise UserError(f"{file} must hold a dictionary of arrays")

    def load_tensor(name: str) -> np.ndarray:
        tensor = tensors[name]
        # Sparse tensors, and those on other devices such as 'meta', have no plain buffer here.
        is_dense = tensor.layout is torch.strided and tensor.device.type == "cpu"
        _check_kind(file, name, tensor.is_floating_point() and is_dense)
        # resolve_neg: NumPy cannot view a tensor that PyTorch negates lazily.
        return tensor.detach().resolve_neg().float().numpy()

    yield Arrays(file, {name: tuple(x.shape) for name, x in named}, load_tensor)


def _check_kind(file: Path, name: str, is_right: bool) -> None:
    if not is_right:
        raise UserError(f"{file}: {name} is not a real floating-point array")


def write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes {name: array} in float32 as a safetensors file."""
    import safetensors.numpy

    # safetensors stores the buffer in memory order: a transposed view would be read back scrambled.
    contiguous = {name: np.ascontiguousarray(x, np.float32) for name, x in arrays.items()}
    # The mode by umask: safetensors makes files that other users cannot read.
    file.touch()
    mode = file.stat().st_mode
    # The metadata's format: transformers refuses files whose metadata has none.
    safetensors.numpy.save_file(contiguous, file, {"format": "pt"})
    file.chmod(mode)
