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
    """The variables of a file, mapped into memory, and other names of some."""

    spec: str
    variables: dict[str, np.ndarray]
    aliases: dict[str, str]

    def target(self, name: str) -> str:
        """Returns the name under which a variable is stored, of which `name` may be an alias."""
        if name == "encoder/embeddings/weight" and name not in self.variables:
            name = "encoder/embeddings_0/weight"
        return self.aliases.get(name, name)

    def array(self, name: str) -> np.ndarray | None:
        """Returns a variable in float32, int8 and int16 multiplied out; None if it is missing."""
        variable = self.variables.get(self.target(name))
        if variable is None:
            return None
        scale = self.variables.get(f"{self.target(name)}_scale")
        array = np.asarray(variable, np.float32)
        if scale is not None:
            array = array / np.asarray(scale, np.float32).reshape(-1, *[1] * (array.ndim - 1))
        return array

    def scalar(self, name: str, default: float | None) -> float | None:
        """Returns a variable of one number, or a default if it is missing."""
        variable = self.variables.get(self.target(name))
        return default if variable is None else variable.reshape(-1)[0].item()

    def count(self, prefix: str) -> int:
        """Returns the number of layers: of the names PREFIX0, PREFIX1, ..., each with its parts."""
        numbers = {
            name.removeprefix(prefix).split("/")[0]
            for name in (*self.variables, *self.aliases)
            if name.startswith(prefix)
        }
        return sum(number.isdecimal() for number in numbers)  # 'layer_norm' is no layer


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
    aliases = {}
    if version >= 3:
        for _ in range(reader.number("I")):
            alias = reader.string()
            aliases[alias] = reader.string()
    return Model(spec, variables, aliases)


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
