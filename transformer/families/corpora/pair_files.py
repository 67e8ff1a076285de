"""Files of pairs: tab-separated, JSON lines or Parquet.

A line of FILE.tsv is SOURCE<tab>TARGET; further columns are ignored. FILE.jsonl has an object a
line, {"de": "...", "en": "..."}, and FILE.parquet a column per language. In both, the texts may be
in 'translation', as in Hugging Face's data sets. A line break within a text becomes a space. The
first two may be .gz or .xz.
"""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from transformer.data import corpora, text_files
from transformer.errors import UserError, optional


def load(folder: Path, name: str, languages: tuple[str, str], key: str) -> corpora.Corpus:
    """Returns the pairs of a file; UserError if it has none, or cannot be read.

    `key` is the config key of the name, for error messages.
    """
    file = folder / name
    if not file.is_file():
        raise UserError(f"{key}={name!r}: {file} does not exist")
    read = functools.partial(pairs, file, languages)
    digest, _ = text_files.digest_and_count(file)
    if not (size := sum(1 for _ in read())):
        raise UserError(f"{file} has no pairs")
    items = functools.partial(corpora.select, read)
    fingerprint = corpora.fingerprint("parallel_text", (languages, digest))
    return corpora.Corpus(fingerprint, size, items, (str(file),))


def pairs(file: Path, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the (source, target) pairs of a file; UserError for a pair without both texts."""
    is_tsv = ".tsv" in file.suffixes
    read = _rows if file.suffix == ".parquet" else text_files.lines
    for number, item in enumerate(read(file), start=1):
        try:
            if is_tsv:
                pair = item.split("\t")[:2]
            else:
                texts = json.loads(item) if isinstance(item, str) else item
                pair = [texts.get("translation", texts)[language] for language in languages]
            # JSON can escape a lone surrogate, but UTF-8 cannot encode it.
            source, target = (text.encode("utf-8", "replace").decode() for text in pair)
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            names = "SOURCE<tab>TARGET" if is_tsv else f"texts {languages[0]} and {languages[1]}"
            raise UserError(
                f"{file}, pair {number}: expected {names}, found {item!r:.80}"
            ) from error
        yield re.sub("[\r\n]+", " ", source), re.sub("[\r\n]+", " ", target)


def _rows(file: Path) -> Iterator[dict]:
    """Yields the rows of a Parquet file."""
    parquet = optional("pyarrow.parquet", "pyarrow", str(file))
    try:
        for batch in parquet.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()
    except (ValueError, OSError) as error:  # Arrow's errors are of these types
        raise UserError(f"{file} is not a Parquet file: {error}") from error
