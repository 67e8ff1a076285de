"""Aligned text files -> lines: plain, .gz or .xz, strict UTF-8, one sentence per line."""

import codecs
import contextlib
import functools
import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from transformer.errors import UserError

GZIP = b"\x1f\x8b"  # the magic number of gzip; no UTF-8 text begins with it


def find(folder: Path, split: str, languages: Sequence[str], key: str = "split") -> list[Path]:
    """Returns the source file and the target file of a split.

    `split` is a stem in `folder` or 'SOURCE_FILE,TARGET_FILE'; `key` is its config key, for error
    messages. UserError unless exactly one file matches each side.
    """
    if languages[0] == languages[1] or not all(re.fullmatch(r"[\w-]+", x) for x in languages):
        names = " and ".join(map(repr, languages))
        raise UserError(
            "config.data.source_language and config.data.target_language are two different codes, "
            f"such as 'de' and 'en', found {names}"
        )
    if "," in split:
        sides = [[folder / Path(name.strip()).expanduser()] for name in split.split(",")]
    else:
        suffixes = "", ".gz", ".xz"
        sides = [[folder / f"{split}.{language}{x}" for x in suffixes] for language in languages]
    if len(sides) != 2:
        raise UserError(f"{key} is a stem or SOURCE_FILE,TARGET_FILE, found {split!r}")
    files = []
    for candidates in sides:
        present = [file for file in candidates if file.is_file()]
        if len(present) > 1:
            raise UserError(
                f"{key}={split!r} could be {' or '.join(map(str, present))}: remove all but one"
            )
        if not present:
            raise UserError(f"{key}={split!r}: {_why_missing(folder, candidates, languages, key)}")
        files += present
    return files


def _why_missing(folder: Path, candidates: list[Path], languages: Sequence[str], key: str) -> str:
    """Says for one side what was expected, what is there, and what the user can set instead."""
    if folders := [str(file) for file in candidates if file.is_dir()]:
        return f"{folders[0]} is a folder, expected a file"
    if folder.is_dir():
        names = {file.name for language in languages for file in folder.glob(f"*.{language}*")}
        state = f"has {', '.join(sorted(names)[:20]) or 'neither'}"
    else:
        state = "is a file, expected a folder" if folder.exists() else "does not exist"
    no_test = ", or to '' for no test set" if key == "config.data.test" else ""
    return (
        f"expected one of {', '.join(map(str, candidates))}, found none "
        f"(set {key} to another stem, or to SOURCE_FILE,TARGET_FILE{no_test}); {folder} {state}"
    )


@contextlib.contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    """Opens a file's uncompressed bytes, after the byte order mark if there is one.

    UserError if the file is UTF-16, gzip data without the suffix .gz, or cannot be decompressed.
    """
    # Not FORMAT_AUTO, which takes any bytes for the older .lzma: a format without a checksum.
    xz = functools.partial(lzma.open, format=lzma.FORMAT_XZ)
    opened = {".gz": gzip.open, ".xz": xz}.get(file.suffix, open)(file, "rb")
    try:
        with opened:
            # No UTF-8 text begins with a byte order mark of UTF-16.
            start = opened.read(len(codecs.BOM_UTF8))
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise UserError(
                    f"{file} is UTF-16, expected UTF-8: convert it, as by iconv -f UTF-16 -t UTF-8"
                )
            if start.startswith(GZIP) and file.suffix not in (".gz", ".xz"):
                raise UserError(f"{file} is gzip data: call it {file.name}.gz")
            if start != codecs.BOM_UTF8:
                opened.seek(0)
            yield opened
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise UserError(f"{file} is corrupt, or not in the format of its name: {error}") from error


def digest_and_count(file: Path) -> tuple[str, int]:
    """Returns the sha256 of a file's uncompressed bytes and the number of its lines."""
    digest, count, last = hashlib.sha256(), 0, b"\n"
    with _open(file) as opened:
        while chunk := opened.read(1 << 20):
            digest.update(chunk)
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return digest.hexdigest(), count + (last != b"\n")  # the last line may lack its newline


def lines(file: Path) -> Iterator[bytes]:
    """Yields the lines of a file, without their ends; UserError for one that is not UTF-8.

    Only \\n ends a line, as for wc: U+2028, \\x85, \\x0b and a lone \\r are text. The \\r of a
    Windows line end is removed.
    """
    with _open(file) as opened:
        for number, line in enumerate(opened, start=1):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise UserError(f"{file}, line {number}, is not UTF-8: {error}") from error
            yield line
