"""JSON files, which may come from anybody: one bound on their size, errors of one line."""

import json
from pathlib import Path
from typing import Any

from transformer.errors import UserError
from transformer.storage import paths

MAX_BYTES = 1 << 27  # a larger file is no config, no result and no vocabulary


def read(file: Path) -> Any:
    """Returns a JSON file's value; UserError, which names it, if it is missing or damaged."""
    if not file.is_file():
        raise UserError(f"{file} is missing")
    if (size := paths.size(file)) > MAX_BYTES:
        raise UserError(f"{file} has {size:,} bytes, expected at most {MAX_BYTES:,}")
    try:
        return loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"damaged: {file} is not JSON: {error}") from error


def loads(text: str | bytes) -> Any:
    """Returns the value of a JSON text, in which an integer that is too long for 64 bits, and for
    anything that is counted, is a float."""
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
