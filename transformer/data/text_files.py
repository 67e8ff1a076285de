"""Text files -> lines: plain, .gz or .xz, UTF-8; two aligned files, or parts of files."""

import codecs
import contextlib
import functools
import glob
import gzip
import hashlib
import itertools
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from transformer.errors import UserError

SUFFIXES = "", ".gz", ".xz"


def other_language(folder: Path, stem: str, language: str) -> str:
    """Returns the other language of a folder's files STEM.LANGUAGE.

    Example: for `language` en and the files train.de.gz, train.en and notes.txt, it is de.
    UserError unless there is exactly one.
    """
    path = folder / os.path.expanduser(stem)
    names = [file.name for file in path.parent.glob(f"{glob.escape(path.name)}.*")]
    ends = {name.removeprefix(f"{path.name}.").removesuffix(".gz") for name in names}
    others = sorted({end.removesuffix(".xz") for end in ends} - {language})
    if len(others) != 1:
        raise UserError(
            "set config.data.source_language and config.data.target_language: besides "
            f"{language!r}, the files {stem}.LANGUAGE have {', '.join(others) or 'none'}; "
            f"{state(folder)}"
        )
    return others[0]


def find(folder: Path, split: str, languages: Sequence[str], key: str) -> list[Path]:
    """Returns the source file and the target file of a split.

    `split` is a stem in `folder` or 'SOURCE_FILE,TARGET_FILE'; `key` is its config key, for error
    messages. UserError unless exactly one file matches each side.
    """
    if languages[0] == languages[1]:
        raise UserError(
            f"config.data.source_language and config.data.target_language are {languages[0]!r}: "
            "they must be two different codes, such as 'de' and 'en', the ends of the files' names"
        )
    # Candidates per side, such as train.de, train.de.gz, train.de.xz; exactly one must exist.
    if "," in split:
        sides = [[name.strip()] for name in split.split(",")]
    else:
        sides = [[f"{split}.{language}{x}" for x in SUFFIXES] for language in languages]
    if len(sides) != 2:
        raise UserError(f"{key} must be a stem or SOURCE_FILE,TARGET_FILE, found {split!r}")
    return [_only_file(folder, names, f"{key}={split!r}") for names in sides]


def _only_file(folder: Path, names: list[str], setting: str) -> Path:
    """Returns the only existing file; UserError, beginning with `setting`, unless there is one."""
    files = [folder / os.path.expanduser(name) for name in names]
    present = [file for file in files if file.is_file()]
    if len(present) != 1:
        no_test = " ('' for no test set)" if setting.startswith("config.data.test=") else ""
        raise UserError(
            f"{setting}: expected one of {', '.join(map(str, files))}{no_test}, found "
            f"{' and '.join(map(str, present)) or 'none'}; {state(folder)}"
        )
    return present[0]


def state(folder: Path) -> str:
    """Returns the contents of config.data.directory, for an error message."""
    if not folder.is_dir():
        return f"{folder} (config.data.directory) is not a folder: set it to that of your files"
    names = sorted(file.name for file in folder.iterdir())
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{folder} (config.data.directory) has {shown or 'no file'}"


class Part(NamedTuple):
    """Lines or characters `first` to `last` - 1 of a text file, counted from 0."""

    file: Path
    digest: str  # sha256 of the whole file
    first: int
    last: int
    in_characters: bool


def find_parts(folder: Path, split: str, key: str) -> list[Part]:
    """Returns the parts of text files that a split names, in order.

    `split` is 'FILE', or several separated by commas; FILE.gz and FILE.xz are found, too. A FILE
    may end in a slice, as in TFDS: 'all.txt[:90%]' is the first 90 % of its lines, and
    'all.txt[90%: of characters]' the last 10 % of its characters, line breaks included. A slice of
    characters may start within a line. UserError unless each file exists exactly once, and for an
    empty part.

    A part starts at n * start // 100 of n lines or characters, so that adjacent parts neither
    overlap nor leave a gap: of 7 lines, [:50%] has 3 and [50%:] has 4.
    """
    parts = []
    for name in map(str.strip, split.split(",")):
        # FILE, then [start%:stop%] or [start%:stop% of characters], both numbers optional.
        match = re.fullmatch(r"([^\[]+)(?:\[(?:(\d\d?)%)?:(?:(\d\d?)%)?( of characters)?\])?", name)
        if not match:
            raise UserError(
                f"{key}={split!r}: expected FILE or a part of it, such as FILE[:90%], FILE[90%:], "
                f"FILE[:90% of characters], found {name!r}"
            )
        start, stop, in_characters = int(match[2] or 0), int(match[3] or 100), bool(match[4])
        file = _only_file(folder, [match[1] + suffix for suffix in SUFFIXES], f"{key}={split!r}")
        digest, total = digest_and_count(file)
        if in_characters:
            total = sum(len(line) + 1 for line in lines(file))
        part = Part(file, digest, total * start // 100, total * stop // 100, in_characters)
        if part.first >= part.last:
            raise UserError(f"{key}={split!r}: {name!r} is empty, of {file}")
        parts.append(part)
    return parts


@contextlib.contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    """Opens a file's uncompressed bytes, after any byte order mark.

    UserError if the file cannot be decompressed.
    """
    # Not FORMAT_AUTO, which takes any bytes for .lzma, because that format has no checksum.
    xz = functools.partial(lzma.open, format=lzma.FORMAT_XZ)
    try:
        with {".gz": gzip.open, ".xz": xz}.get(file.suffix, open)(file, "rb") as opened:
            if opened.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
                opened.seek(0)
            yield opened
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise UserError(f"{file} is corrupt, or not in the format of its name: {error}") from error


def digest_and_count(file: Path) -> tuple[str, int]:
    """Returns the sha256 of a file's uncompressed bytes and the number of its lines."""
    digest = hashlib.sha256()
    count = 0
    with _open(file) as opened:
        for line in opened:
            digest.update(line)
            count += 1
    return digest.hexdigest(), count


def raw_lines(file: Path) -> Iterator[bytes]:
    """Yields the lines of a file, in any encoding, without their ends.

    Only \\n ends a line, as in wc; U+2028, \\x85, \\x0b and a lone \\r are text. The \\r of a
    Windows line end is removed.
    """
    with _open(file) as opened:
        for line in opened:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def lines(file: Path) -> Iterator[str]:
    """Yields the lines of a file as `raw_lines` does; UserError for a line that is not UTF-8."""
    for number, line in enumerate(raw_lines(file), start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{file}, line {number}, is not UTF-8: {error}; convert the file, as by iconv"
            ) from error
        yield text


def lines_of_part(part: Part) -> Iterator[str]:
    """Yields the lines of a part of a file, without their ends.

    A cut within a line makes two lines of it.
    """
    if not part.in_characters:
        yield from itertools.islice(lines(part.file), part.first, part.last)
        return
    position = 0  # of the line's first character in the file
    for line in lines(part.file):
        text = line + "\n"
        # A line at 100 to 120 and a part from 110 to 200 give the line's characters from 10 on.
        piece = text[max(0, part.first - position) : max(0, part.last - position)]
        position += len(text)
        if piece:
            yield piece.removesuffix("\n")


def count_lines(part: Part) -> int:
    """Returns the number of lines of a part."""
    if part.in_characters:
        return sum(1 for _ in lines_of_part(part))
    return part.last - part.first
