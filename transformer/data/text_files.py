"""Aligned text files -> lines: plain, .gz or .xz, strict UTF-8, a sentence a line."""

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

GZIP = b"\x1f\x8b"  # what such a file begins with; no UTF-8 text does


def find(folder: Path, split: str, languages: Sequence[str], key: str = "split") -> list[Path]:
    """The source and the target file of a split: a stem in `folder`, or 'SOURCE,TARGET'.

    `key` is what errors call the split by.
    """
    if languages[0] == languages[1] or not all(re.fullmatch(r"[\w-]+", x) for x in languages):
        found = " and ".join(map(repr, languages))
        raise UserError(f"the languages must be two codes such as 'de' and 'en', found {found}")
    if "," in split:
        sides = [[folder / Path(name.strip()).expanduser()] for name in split.split(",")]
    else:
        ends = "", ".gz", ".xz"
        sides = [[folder / f"{split}.{language}{end}" for end in ends] for language in languages]
    if len(sides) != 2:
        raise UserError(f"{key} is a stem or SOURCE_FILE,TARGET_FILE, found {split!r}")
    no_test = ", or to '' for no test set" if key == "config.data.test" else ""
    files = []
    for variants in sides:
        found = [file for file in variants if file.is_file()]
        if len(found) != 1:
            present = {file.name for x in languages for file in folder.glob(f"*.{x}*")}
            state = f"has {', '.join(sorted(present)[:20]) or 'neither'}"
            if folders := [str(file) for file in variants if file.is_dir()]:
                raise UserError(f"{key}={split!r}: {folders[0]} is a folder, expected a file")
            if len(found) > 1:
                raise UserError(
                    f"{key}={split!r} could be {' or '.join(map(str, found))}: remove all but one"
                )
            if not folder.is_dir():
                state = "is a file, expected a folder" if folder.exists() else "does not exist"
            raise UserError(
                f"{key}={split!r} wants one of {', '.join(map(str, variants))}, found none "
                f"(set {key} to another stem, or to SOURCE_FILE,TARGET_FILE{no_test}); "
                f"{folder} {state}"
            )
        files += found
    return files


@contextlib.contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    """The uncompressed bytes of a file, after the byte order mark if there is one; UserError where
    that is UTF-16's, which begins no UTF-8 text."""
    # Not FORMAT_AUTO: that takes any bytes for the older .lzma, which has no check of its content.
    xz = functools.partial(lzma.open, format=lzma.FORMAT_XZ)
    opened = {".gz": gzip.open, ".xz": xz}.get(file.suffix, open)(file, "rb")
    try:
        with opened:
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
        raise UserError(f"{file} is broken or not what its name says: {error}") from error


def digest_and_count(file: Path) -> tuple[str, int]:
    """The sha256 of the file's bytes and the number of its lines."""
    digest, count, last = hashlib.sha256(), 0, b"\n"
    with _open(file) as opened:
        while chunk := opened.read(1 << 20):
            digest.update(chunk)
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return digest.hexdigest(), count + (last != b"\n")


def lines(file: Path) -> Iterator[bytes]:
    """The lines of a file. Only \\n ends one (U+2028, \\x85, \\x0b and a lone \\r are text, as for
    wc), and the \\r of a Windows line end goes; UserError where it is not UTF-8."""
    with _open(file) as opened:
        for number, line in enumerate(opened, start=1):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise UserError(f"{file}, line {number}, is not UTF-8: {error}") from error
            yield line
