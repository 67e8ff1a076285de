"""Reads and writes JSON files, which may be untrusted: bounds their size, names what is wrong."""

import json
from pathlib import Path
from typing import Any

from transformer.errors import UserError
from transformer.runtime import paths

MAX_BYTES = 1 << 27  # a larger file is no config, no result and no vocabulary


def read(file: Path) -> Any:
    """Returns a JSON file's value; UserError, which names it, if it is missing or damaged."""
    if not file.is_file():
        raise UserError(f"{file} is missing")
    if (size := paths.size(file)) > MAX_BYTES:
        raise UserError(f"{file} has {size:,} bytes, expected at most {MAX_BYTES:,}")
    try:
        value = loads(file.read_bytes())
        json.dumps(value, ensure_ascii=False).encode()  # fails if a text has half a character
    except (ValueError, RecursionError) as error:
        raise UserError(f"damaged: {file} is not JSON: {error}") from error
    return value


def loads(text: str | bytes) -> Any:
    """Returns the value of a JSON text; an integer that may exceed 64 bits becomes a float."""
    # 18 characters always fit into 64 bits. Python's integers have no bound, so that a file could
    # hold one that is slow to compute with.
    integer = lambda digits: int(digits) if len(digits) < 19 else float(digits)
    return json.loads(text, parse_int=integer)


def read_object(file: Path) -> dict[str, Any]:
    """Returns a JSON file's object; UserError, which names it, if it holds another value."""
    if not isinstance(value := read(file), dict):
        raise UserError(f"damaged: {file} is not a JSON object, but {str(value)[:40]!r}")
    return value


def write(file: Path, value: dict) -> None:
    """Writes a JSON file that people can read, atomically."""
    paths.write_file(file, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
