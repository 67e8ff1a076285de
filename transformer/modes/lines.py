"""Reads and writes lines for modes: plain text, tab-separated columns or JSON, always in UTF-8."""

import codecs
import json
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from transformer.errors import UserError


def read(file: Iterable[bytes]) -> Iterator[str]:
    """Yields the lines of a file, decoded from UTF-8 in any locale.

    A line ends at \\n; a \\r before it is dropped. Invalid bytes become U+FFFD, with a warning.
    """
    for number, line in enumerate(file, start=1):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # from Windows programs
        text = line.decode("utf-8", "replace")
        # Equal if nothing was replaced, even if the line has its own U+FFFD.
        if text.encode() != line:
            logging.warning("line %d: replaced bytes that are not UTF-8", number)
        yield text


def columns(
    lines: Iterable[str], names: Sequence[str], *, needed: int, form: str
) -> Iterator[dict]:
    """Yields each line as {name: text}, from tab-separated columns or from a JSON object.

    The first `needed` names are required. `form` is 'text' or 'json'. A JSON object keeps its other
    keys. With a single name, the column is the whole line, including tabs.
    """
    expected = "<tab>".join(map(str.upper, names[:needed]))
    if form == "json":
        example = dict.fromkeys(names[:needed], "...")
        expected = f"a JSON object with texts, such as {json.dumps(example)}"
    for number, line in enumerate(lines, start=1):
        if form == "json":
            try:
                values = json.loads(line)
                if "\\ud" in line.lower():  # perhaps a lone surrogate
                    values = json.loads(encodable(json.dumps(values, ensure_ascii=False)))
            except (ValueError, RecursionError):
                values = None
            values = values if isinstance(values, dict) else {}
        else:
            # At most len(names) columns; further tabs belong to the last column.
            values = dict(zip(names, line.split("\t", len(names) - 1), strict=False))
        texts = {name: values[name] for name in names if name in values}
        are_texts = all(isinstance(text, str) for text in texts.values())
        if not (are_texts and {*names[:needed]} <= texts.keys()):
            raise UserError(f"line {number}: expected {expected}, found {line[:80]!r}")
        yield values


def write(file: BinaryIO, text: str, end: str = "\n") -> None:
    """Writes a line, or with another `end` part of a line, and flushes it."""
    # Flush at once, because a program behind a pipe may wait for the answer to its line.
    file.write(f"{encodable(text)}{end}".encode())
    file.flush()


def to_json(values: dict) -> str:
    """Returns a JSON object on one line; non-finite numbers become null."""
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False)
    except ValueError:  # read again, NaN and Infinity are None
        plain = json.loads(json.dumps(values), parse_constant=lambda name: None)
        return json.dumps(plain, ensure_ascii=False)


def count(file: BinaryIO) -> int | None:
    """Returns the number of lines left in a file, or None for a pipe or a terminal."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    # Count from the current position, because some lines may have been read, and return there.
    start = file.tell()
    lines = sum(1 for _ in file)
    file.seek(start)
    return lines


def encodable(text: str) -> str:
    """Replaces lone surrogates, which JSON can escape but UTF-8 cannot encode, by '?'."""
    return text.encode("utf-8", "replace").decode()
