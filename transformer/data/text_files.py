"""Text files -> lines: plain, .gz or .xz, strict UTF-8; two aligned files, or parts of files."""

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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from transformer.errors import UserError, quantity

SUFFIXES = "", ".gz", ".xz"
GZIP = b"\x1f\x8b"  # the magic number of gzip; no UTF-8 text begins with it


def languages(folder: Path, stems: Iterable[str], source: str, target: str) -> tuple[str, str]:
    """Returns the languages of source and target; "" is replaced by the folder's other language.

    A folder's languages are the endings that all stems have: de and en where there are train.de,
    train.en.gz, test.de, test.en and notes.txt. UserError if both languages are "", if there is not
    exactly one other language, or no such folder.
    """
    if not folder.is_dir():
        raise UserError(state(folder))
    ends = {}  # {stem: the ends of its files}; a stem without files is for `find` to name
    for stem in stems:
        path = folder / os.path.expanduser(stem)
        for file in path.parent.glob(f"{glob.escape(path.name)}.*"):
            end = file.name.removeprefix(f"{path.name}.")
            ends.setdefault(stem, set()).add(end.removesuffix(".gz").removesuffix(".xz"))
    # Every stem must have the language: test.fr alone does not make fr one.
    present = sorted(set.intersection(*ends.values())) if ends else []
    others = [language for language in present if language not in (source, target)]
    if len(others) == 1 and (source or target):
        return source or others[0], target or others[0]
    which = f"to the ends of your files' names, {', '.join(present)}" if present else "to two codes"
    raise UserError(
        f"set config.data.source_language or config.data.target_language, or both, {which} (found "
        f"{source!r} and {target!r}); {state(folder)}"
    )


def find(folder: Path, split: str, languages: Sequence[str], key: str) -> list[Path]:
    """Returns the source file and the target file of a split.

    `split` is a stem in `folder` or 'SOURCE_FILE,TARGET_FILE'; `key` is its config key, for error
    messages. UserError unless exactly one file matches each side.
    """
    if languages[0] == languages[1] or not all(re.fullmatch(r"[\w-]+", x) for x in languages):
        names = " and ".join(map(repr, languages))
        raise UserError(
            "config.data.source_language and config.data.target_language must be two different "
            f"codes, such as 'de' and 'en', found {names}"
        )
    # Candidates of each side, such as train.de, train.de.gz, train.de.xz: one of them must exist.
    if "," in split:
        sides = [[folder / os.path.expanduser(name.strip())] for name in split.split(",")]
    else:
        sides = [[folder / f"{split}.{language}{x}" for x in SUFFIXES] for language in languages]
    if len(sides) != 2:
        raise UserError(f"{key} must be a stem or SOURCE_FILE,TARGET_FILE, found {split!r}")
    no_test = ", or to '' for no test set" if key == "config.data.test" else ""
    hint = (
        f" (set {key} to another stem, or to SOURCE_FILE,TARGET_FILE{no_test}; "
        "config.data.source_language and config.data.target_language are the ends of the files' "
        "names)"
    )
    return [_only_file(folder, side, f"{key}={split!r}", hint) for side in sides]


def _only_file(folder: Path, candidates: list[Path], setting: str, hint: str) -> Path:
    """Returns the one candidate that is a file.

    Otherwise raises UserError, which begins with the `setting`; `hint` is what the user can set
    instead of it where there is none.
    """
    present = [file for file in candidates if file.is_file()]
    if len(present) == 1:
        return present[0]
    if present:
        raise UserError(f"{setting} could be {' or '.join(map(str, present))}: remove all but one")
    if folders := [str(file) for file in candidates if file.is_dir()]:
        raise UserError(f"{setting}: {folders[0]} is a folder, expected a file")
    names = ", ".join(map(str, candidates))
    raise UserError(f"{setting}: expected one of {names}, found none{hint}; {state(folder)}")


def state(folder: Path) -> str:
    """Returns what is in config.data.directory, for an error message."""
    if folder == Path():
        return "config.data.directory is empty or '.': set it to the folder of your files"
    if not folder.is_dir():
        what = "is a file, expected a folder" if folder.exists() else "does not exist"
        return f"{folder} (config.data.directory) {what}: set it to the folder of your files"
    names = sorted(file.name for file in folder.iterdir())
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{folder} (config.data.directory) has {shown or 'no such file'}"


class Part(NamedTuple):
    """Lines of a text file, or characters: `first` to `last` - 1, counted from 0."""

    file: Path
    digest: str  # sha256 of the whole file's content
    first: int
    last: int
    in_characters: bool


def find_parts(folder: Path, split: str, key: str) -> list[Part]:
    """Returns the parts of text files that a split names, in order.

    `split` is 'FILE', or several separated by commas; FILE.gz and FILE.xz are found, too. A FILE
    may end in a slice, as in TFDS: 'all.txt[:90%]' are the first 90 % of its lines, and
    'all.txt[90%: of characters]' the last 10 % of its characters, line breaks included, which may
    begin in the middle of a line. UserError unless each file is there exactly once, and for a part
    that is empty.

    A part of n lines or characters begins at n * start // 100, so that adjacent parts neither
    overlap nor leave a gap: of 7 lines, [:50%] has 3 and [50%:] has 4.
    """
    hint = " (set it to '' for no test set)" if key == "config.data.test" else ""
    parts = []
    for name in map(str.strip, split.split(",")):
        # FILE, then [start%:stop%] or [start%:stop% of characters], both numbers optional.
        match = re.fullmatch(r"(.+?)(?:\[(?:(\d+)%)?:(?:(\d+)%)?( of characters)?\])?", name)
        start, stop = (int(match[2] or 0), int(match[3] or 100)) if match else (0, 0)
        if not start < stop <= 100 or match[1].endswith("]"):
            raise UserError(
                f"{key}={split!r}: expected FILE or a part of it, such as FILE[:90%], FILE[90%:], "
                f"FILE[:90% of characters], found {name!r}"
            )
        candidates = [folder / os.path.expanduser(match[1] + suffix) for suffix in SUFFIXES]
        file = _only_file(folder, candidates, f"{key}={split!r}", hint)
        digest, count = digest_and_count(file)
        total = sum(len(line) + 1 for line in lines(file)) if match[4] else count
        part = Part(file, digest, total * start // 100, total * stop // 100, bool(match[4]))
        if not count:
            raise UserError(f"{file} is empty")
        if part.first == part.last:
            raise UserError(
                f"{file}, from {start} to {stop} %, is empty: the file has "
                f"{quantity(count, 'line')}"
            )
        parts.append(part)
    return parts


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
    """Returns the sha256 of a file's uncompressed bytes and the number of its lines.

    UserError, with the number of the line, for text that is not UTF-8.
    """
    digest, count, last = hashlib.sha256(), 0, b"\n"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # Read in chunks of 1 MiB, so that a file need not fit into memory.
        with _open(file) as opened:
            while chunk := opened.read(1 << 20):
                digest.update(chunk)
                decoder.decode(chunk)
                count += chunk.count(b"\n")
                last = chunk[-1:]
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        for _ in lines(file):  # raises the error, with the line
            pass
    return digest.hexdigest(), count + (last != b"\n")  # the last line may lack its newline


def lines(file: Path) -> Iterator[str]:
    """Yields the lines of a file as `raw_lines` does; UserError for one that is not UTF-8."""
    for number, line in enumerate(raw_lines(file), start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{file}, line {number}, is not UTF-8: {error}; convert the file, as by "
                "iconv -f LATIN1 -t UTF-8"
            ) from error
        yield text


def raw_lines(file: Path) -> Iterator[bytes]:
    """Yields the lines of a file, in any encoding, without their ends.

    Only \\n ends a line, as for wc: U+2028, \\x85, \\x0b and a lone \\r are text. The \\r of a
    Windows line end is removed.
    """
    with _open(file) as opened:
        for line in opened:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def lines_of_part(part: Part) -> Iterator[str]:
    """Yields the lines of a part of a file, without their ends.

    A cut between characters of a line makes two lines of it.
    """
    if not part.in_characters:
        yield from itertools.islice(lines(part.file), part.first, part.last)
        return
    position = 0  # of the line's first character in the file
    for line in lines(part.file):
        text = line + "\n"
        # A line at 100 to 120 and a part of 110 to 200: the line's characters 10 to 100.
        piece = text[max(0, part.first - position) : max(0, part.last - position)]
        position += len(text)
        if piece:
            yield piece.removesuffix("\n")


def count_lines(part: Part) -> int:
    """Returns the number of lines of a part."""
    if part.in_characters:
        return sum(1 for _ in lines_of_part(part))
    return part.last - part.first


def content(parts: Iterable[Part]) -> list[tuple]:
    """Returns what identifies the content of parts: no paths, so that files may be moved."""
    return [part[1:] for part in parts]
