"""Files of arrays: model.safetensors, or PyTorch's pytorch_model.bin without running its code."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError, optional

# The dtypes that are read, as safetensors names them.
DTYPES = ("F16", "BF16", "F32", "F64")


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

    def check_rest(self, used: set[str], fault: Callable[[str, np.ndarray], str]) -> None:
        """Checks the arrays that are not in `used`: UserError for the first with a fault.

        `fault(name, array)` describes the fault of an array, "" for none. Every array of a file is
        thus either used or known to make no difference.
        """
        for name in sorted(self.shapes.keys() - used):
            if message := fault(name, self.read(name, self.shapes[name])):
                raise UserError(f"{self.file}: {name} {message}")


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Arrays]:
    """Opens a folder's file of arrays.

    UserError for a folder without such a file, for a damaged file, and for a file with an array
    that is not real floating point.
    """
    file = folder / "model.safetensors"
    if file.is_file():
        import safetensors

        try:
            # As JAX's arrays, because NumPy has no bfloat16.
            with safetensors.safe_open(file, framework="flax") as arrays:
                # A slice knows its shape and its dtype without loading the array.
                slices = {name: arrays.get_slice(name) for name in arrays.offset_keys()}
                _check_real(file, {name: x.get_dtype() in DTYPES for name, x in slices.items()})
                shapes = {name: tuple(x.get_shape()) for name, x in slices.items()}
                yield Arrays(file, shapes, arrays.get_tensor)
        # Also raised while the caller reads: the `yield` is inside.
        except safetensors.SafetensorError as error:
            raise UserError(f"{file} is damaged, or no safetensors file: {error}") from error
        return
    file = folder / "pytorch_model.bin"
    if not file.is_file():
        raise UserError(f"{folder} holds neither model.safetensors nor pytorch_model.bin")
    torch = optional("torch", "torch", str(file))
    # weights_only unpickles only arrays, and runs no code in the file. Files from before PyTorch
    # 1.6, such as most of OPUS-MT's, are not zip files and cannot be memory-mapped.
    try:
        tensors = torch.load(file, "cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except Exception as error:  # PyTorch and zip raise many kinds of errors for a damaged file
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{file} is damaged, or holds more than arrays: {reason}") from error
    if not isinstance(tensors, dict):
        raise UserError(f"{file} must hold a dictionary of arrays")
    is_real = lambda x: isinstance(x, torch.Tensor) and x.is_floating_point()
    _check_real(file, {name: is_real(x) for name, x in tensors.items()})
    # Convert to float32 first, because NumPy has no bfloat16.
    load = lambda name: tensors[name].detach().float().numpy()
    yield Arrays(file, {name: tuple(x.shape) for name, x in tensors.items()}, load)


def _check_real(file: Path, are_real: dict[str, bool]) -> None:
    """Raises UserError for the first array that is not of real floating-point numbers."""
    if not_real := [name for name, is_real in are_real.items() if not is_real]:
        raise UserError(f"{file}: {not_real[0]} is not a real floating-point array")


def write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes {name: array} in float32 as a safetensors file."""
    import safetensors.numpy

    # Contiguous, because safetensors stores the buffer in memory order.
    contiguous = {name: np.ascontiguousarray(x, np.float32) for name, x in arrays.items()}
    # transformers refuses files without a format in the metadata. The file is written here, because
    # other users cannot read files that safetensors writes.
    file.write_bytes(safetensors.numpy.save(contiguous, {"format": "pt"}))
