"""Files of arrays: model.safetensors, or PyTorch's pytorch_model.bin without running its code."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from transformer.errors import UserError


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[tuple[Path, dict[str, tuple[int, ...]], Callable]]:
    """Opens a folder's arrays: (file, {name: shape}, a function that loads one by its name)."""
    file = folder / "model.safetensors"
    if file.is_file():
        import safetensors

        try:
            with safetensors.safe_open(file, framework="flax") as arrays:
                shapes = {x: tuple(arrays.get_slice(x).get_shape()) for x in arrays.offset_keys()}
                yield file, shapes, arrays.get_tensor
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
    # weights_only: nothing but arrays is unpickled, so that no code of the file runs. Files from
    # before PyTorch 1.6, as most of OPUS-MT's are, are no zip and cannot be mapped into memory.
    options = {"weights_only": True, "mmap": zipfile.is_zipfile(file)}
    try:
        arrays = torch.load(file, map_location="cpu", **options)
    except Exception as error:  # of a damaged file PyTorch and zip raise errors of many kinds
        reason = str(error).splitlines()[0]
        raise UserError(f"{file} is damaged, or holds more than arrays: {reason}") from error
    if not isinstance(arrays, dict) or not all(hasattr(x, "shape") for x in arrays.values()):
        raise UserError(f"{file} is no dictionary of arrays")
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    yield file, shapes, lambda name: arrays[name].float().numpy()


def write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes {name: array} in float32 as a safetensors file."""
    import safetensors.numpy

    contiguous = {name: np.ascontiguousarray(x, np.float32) for name, x in arrays.items()}
    file.touch()
    mode = file.stat().st_mode  # by umask; safetensors makes files that other users cannot read
    safetensors.numpy.save_file(contiguous, file, {"format": "pt"})
    file.chmod(mode)
