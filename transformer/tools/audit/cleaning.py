"""Writes a list of faulty pairs, and a copy of a corpus without them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.audit.raw_pairs import Pairs, text
from transformer.tools.pages import page


def check_new(name: str, key: str) -> None:
    """Raises UserError if a path exists, because nothing is overwritten, or cannot be created."""
    if paths.in_bucket(name):
        raise UserError(f"config.audit.{key} is a local path, found {name}")
    path = paths.path(name)
    if path.exists():
        raise UserError(f"config.audit.{key}: {path} exists already, and is not overwritten")
    page.check_writable(path, f"config.audit.{key}")


def write_list(file: Path, split: str, pairs: Pairs, masks: Mapping[str, np.ndarray]) -> None:
    """Appends the pairs with a fault to a tab-separated file.

    A line is SPLIT, the line number (from 1), the FAULTS with commas, SOURCE, TARGET. Bytes that
    are not UTF-8 become U+FFFD, a tab in the text a space.
    """
    # Appended, because each split has a call of its own.
    paths.make_folder(file.parent)
    with file.open("a", encoding="utf-8") as output:
        for number, (source, target) in enumerate(pairs.read()):
            if names := [name for name, mask in masks.items() if mask[number]]:
                texts = [text(line).replace("\t", " ") for line in (source, target)]
                output.write("\t".join([split, str(number + 1), ",".join(names), *texts]) + "\n")


def write_copy(
    folder: Path, split: str, pairs: Pairs, languages: tuple[str, str], kept: np.ndarray
) -> None:
    """Writes the kept pairs, byte by byte and in their order, into FOLDER/SPLIT.LANGUAGE."""
    paths.make_folder(folder)
    # Bytes, and "x": the copy of a line is the line, and an existing file is never overwritten.
    files = [folder / f"{split}.{language}" for language in languages]
    with files[0].open("xb") as source_file, files[1].open("xb") as target_file:
        for is_kept, (source, target) in zip(kept, pairs.read(), strict=True):
            if is_kept:
                source_file.write(source + b"\n")
                target_file.write(target + b"\n")
