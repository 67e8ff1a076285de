"""Lines in, lines out: plain text, columns or JSON objects, in UTF-8 whatever the locale."""

import codecs
import json
import logging
import math
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from transformer.errors import UserError

FORMATS = ("text", "json")


def read(file: Iterable[bytes]) -> Iterator[str]:
    """Lines end at \\n only (or \\r\\n); bytes that are not UTF-8 are replaced, with a warning."""
    for number, line in enumerate(file, start=1):
        line = line.rstrip(b"\r\n")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # Windows programs begin a file with it
        text = line.decode("utf-8", "replace")
        if text.encode() != line:
            logging.warning("line %d: bytes that are not UTF-8 were replaced", number)
        yield text


def columns(
    lines: Iterable[str], names: Sequence[str], *, needed: int, form: str
) -> Iterator[dict]:
    """Each line as {name: text}: tab-separated columns, or a JSON object, whose other keys stay.

    The first `needed` have to be there. A single column is the line, tabs and all.
    """
    if form not in FORMATS:
        raise UserError(f"config.translate.format is one of {', '.join(FORMATS)}, found {form!r}")
    return _columns(lines, names, needed, form)


def _columns(lines: Iterable[str], names: Sequence[str], needed: int, form: str) -> Iterator[dict]:
    for number, line in enumerate(lines, start=1):
        if form == "json":
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise UserError(f'line {number} is no JSON object, such as {{"{names[0]}": "..."}}')
        else:
            found = dict(zip(names, line.split("\t", len(names) - 1), strict=False))
        for i, name in enumerate(names):
            if not isinstance(found.get(name, None if i < needed else ""), str):
                wanted = "<tab>".join(name.upper() for name in names[:needed])
                wanted = f'text under "{name}"' if form == "json" else wanted
                raise UserError(f"line {number}: expected {wanted}, found {line[:80]!r}")
        # JSON can spell half of a surrogate pair, which is no text.
        yield {**found, **{name: _whole(found[name]) for name in names if name in found}}


def write(file: BinaryIO, text: str) -> None:
    """A line, at once."""
    file.write(f"{_whole(text)}\n".encode())
    file.flush()


def to_json(values: dict) -> str:
    """A JSON object; a number that JSON cannot say, such as -inf, is null."""
    try:
        try:
            return json.dumps(values, ensure_ascii=False, allow_nan=False)
        except ValueError:
            return json.dumps(_finite(values), ensure_ascii=False)
    except RecursionError:
        raise UserError("an object is nested too deep to be written as JSON") from None


def count(file: BinaryIO) -> int | None:
    """How many lines are left in a file; None if it is a pipe or a terminal."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    start, lines, last = file.tell(), 0, b"\n"
    while block := file.read(1 << 20):
        lines += block.count(b"\n")
        last = block[-1:]
    file.seek(start)
    return lines + (last != b"\n")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
