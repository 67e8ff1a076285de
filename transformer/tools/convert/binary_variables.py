"""CTranslate2's model.bin: named arrays, of the binary versions 2 to 6.

    uint32 version, string spec, uint32 revision, uint32 count of variables,
    of each: string name, uint8 rank, uint32 dimensions, uint8 type, uint32 bytes, content;
    uint32 count of aliases, of each: string alias, string name

A string is uint16 length with the final zero byte. Before version 4 the type is the size of an item
in bytes, and the number that follows counts items; before version 3 there are no aliases.
"""

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from transformer.errors import UserError

VERSIONS = range(2, 7)
TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16, ml_dtypes.bfloat16)
OF_SIZE = {4: np.float32, 2: np.int16, 1: np.int8}  # before version 4


class Model(NamedTuple):
    """The variables of a file, mapped into memory, under all of their names."""

    file: Path
    spec: str
    variables: dict[str, np.ndarray]
    scales: dict[str, np.ndarray]  # of those in int8 and int16

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes by name."""
        return {name: array.shape for name, array in self.variables.items()}

    def array(self, name: str) -> np.ndarray:
        """Returns a variable in float32; int8 and int16 are divided by their scale."""
        array = np.asarray(self.variables[name], np.float32)
        scale = self.scales.get(name)
        if scale is not None:
            if scale.size not in (1, len(array)):
                raise UserError(f"{self.file}: {name}_scale has the shape {list(scale.shape)}")
            with np.errstate(divide="ignore", invalid="ignore"):
                array = array / np.asarray(scale, np.float32).reshape(-1, *[1] * (array.ndim - 1))
        return array

    def scalar(self, name: str, default: float | None = None) -> int:
        """Returns a variable of one whole number, or a default; UserError if there is neither."""
        variable = self.variables.get(name, np.array(default))
        if variable.size != 1 or variable.item() not in range(1 << 15):
            raise UserError(f"{self.file}: {name} is missing, or is not a number from 0 to 32,767")
        return int(variable.item())

    def count(self, prefix: str) -> int:
        """Returns the number of layers: of the names PREFIX0, PREFIX1, ..., each with its parts."""
        starting = (name for name in self.variables if name.startswith(prefix))
        numbers = {name.removeprefix(prefix).split("/")[0] for name in starting}
        return sum(number.isdecimal() for number in numbers)  # 'layer_norm' is not a layer


class Reader:
    """Reads numbers and strings one after the other from bytes, never beyond their end."""

    def __init__(self, content: mmap.mmap | bytes, file: Path):
        self.content, self.file, self.at = content, file, 0

    def take(self, size: int) -> int:
        """Moves on by `size` bytes and returns where they begin; UserError beyond the end."""
        if size < 0 or self.at + size > len(self.content):
            raise UserError(f"{self.file} is truncated, or no model of CTranslate2's")
        self.at += size
        return self.at - size

    def number(self, kind: str) -> int:
        """Reads a little-endian integer of one of struct's kinds."""
        at = self.take(struct.calcsize(kind))
        return struct.unpack_from(f"<{kind}", self.content, at)[0]

    def string(self) -> str:
        """Reads a string: its size in two bytes, then UTF-8 that ends with a zero byte."""
        size = self.number("H")
        at = self.take(size)
        try:
            return self.content[at : at + size - 1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.file} is damaged, or no model of CTranslate2's") from error


def read(file: Path) -> Model:
    """Maps a model.bin into memory; UserError if it is missing, truncated or something else."""
    if not file.is_file():
        raise UserError(f"{file} is missing")
    with file.open("rb") as opened:
        if not file.stat().st_size:
            raise UserError(f"{file} is empty")
        reader = Reader(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), file)
    if (version := reader.number("I")) not in VERSIONS:
        raise UserError(
            f"{file}: binary version {version}, expected {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    spec, _ = reader.string(), reader.number("I")
    variables = {}
    for _ in range(reader.number("I")):
        name = reader.string()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        variables[name] = _content(reader, name, shape, version)
    for _ in range(reader.number("I") if version >= 3 else 0):
        alias, name = reader.string(), reader.string()
        if name not in variables:
            raise UserError(f"{file}: {name}, also named {alias}, is missing")
        variables[alias] = variables[name]
        if f"{name}_scale" in variables:
            variables[f"{alias}_scale"] = variables[f"{name}_scale"]
    # A word may have several features, with an embedding each: only the first has a place here.
    first = ("encoder/embeddings_0/", "encoder/embeddings/")
    variables = {name.replace(*first): array for name, array in variables.items()}
    scaled = [name for name in variables if f"{name}_scale" in variables]
    scales = {name: variables.pop(f"{name}_scale") for name in scaled}
    return Model(file, spec, variables, scales)


def _content(reader: Reader, name: str, shape: list[int], version: int) -> np.ndarray:
    kind, size = reader.number("B"), reader.number("I")
    dtype = OF_SIZE.get(kind) if version < 4 else TYPES[kind] if kind < len(TYPES) else None
    if dtype is None:
        raise UserError(f"{reader.file}: {name} has the unknown type {kind}")
    itemsize = np.dtype(dtype).itemsize
    size = size * itemsize if version < 4 else size
    count = int(np.prod(shape, dtype=object))
    if size != count * itemsize:
        raise UserError(f"{reader.file}: {name} has {size} bytes, expected {count * itemsize}")
    at = reader.take(size)
    return np.frombuffer(reader.content, dtype, count, at).reshape(shape)
