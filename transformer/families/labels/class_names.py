"""The names of the classes: vocabulary/labels.txt, a line a class, in the order of their ids."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.tasks import vocabularies

NAME = "labels.txt"


def check(labels: Sequence[str], source: str) -> None:
    """Raises UserError for fewer than two classes, or a label that a line of output cannot hold.

    `source` names what the labels were read from.
    """
    if len(labels) < 2:
        raise UserError(f"{source} has the class {labels[0]!r} alone: a classifier needs two")
    for label in labels:
        # --mode=classify writes LABEL<tab>PROBABILITY, labels.txt a line a label.
        if not label.strip() or any(character in label for character in "\t\r\n"):
            raise UserError(f"{source}: a label is text on one line without tabs, found {label!r}")


def prepare(
    config: ConfigDict,
    folder: Path,
    saved_config: ConfigDict | None,
    labels: Sequence[str],
    files: Sequence[str],
) -> tuple[str, ...]:
    """Returns the labels of a run: `labels`, which a new run writes, or those of its workdir.

    Fills in `vocabulary.labels_fingerprint` and `data.num_classes`. `saved_config` is the argument
    of a task's `prepare`, None in a new run; `files` are those of the training split, for error
    messages.
    """
    if saved_config is None:
        check(labels, " and ".join(files) or config.data.corpus)
        write(folder, labels)
    else:
        labels = read(folder, saved_config.vocabulary.labels_fingerprint)
    config.vocabulary.labels_fingerprint = fingerprint(labels)
    config.data.num_classes = len(labels)
    return tuple(labels)


def write(folder: Path, labels: Sequence[str]) -> None:
    """Writes the labels into WORKDIR/vocabulary, with checksums."""
    vocabularies.write_files(folder, {NAME: _text(labels)})


def read(folder: Path, expected: str) -> tuple[str, ...]:
    """Returns the labels of a workdir.

    UserError if the file is missing or damaged, or if its fingerprint is not the `expected` one
    ("": unknown).
    """
    content = vocabularies.read_files(folder, [NAME])[NAME]
    # By "\n" alone: splitlines would also end a label at U+2028.
    labels = tuple(content.decode().removesuffix("\n").split("\n"))
    vocabularies.check_fingerprint(folder, fingerprint(labels), expected)
    return labels


def number(config: ConfigDict, folder: Path | None) -> int:
    """Returns how many classes a workdir has; `folder` None: how many the config says."""
    if folder is None:
        return config.data.num_classes
    return len(read(folder, config.vocabulary.labels_fingerprint))


def fingerprint(labels: Sequence[str]) -> str:
    """Returns a hash of the labels and their order, which says what a class id means."""
    return hashlib.sha256(_text(labels)).hexdigest()[:16]


def class_ids(
    names: Sequence[str], labels: Sequence[str], *, place: Callable[[int], str]
) -> np.ndarray:
    """Returns the class id of each item's label, int32.

    UserError for a label that training never saw; place(i) says where item i is from, such as
    'test.tsv, line 3'.
    """
    # A dict: `labels.index` would search 1,000 classes for each of a million images.
    ids = {label: i for i, label in enumerate(labels)}
    for i, name in enumerate(names):
        if name not in ids:
            shown = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise UserError(
                f"{place(i)}: the label {name!r} is in no training item; the classes are {shown}"
            )
    return np.array([ids[name] for name in names], np.int32)


def _text(labels: Sequence[str]) -> bytes:
    return "".join(f"{label}\n" for label in labels).encode()
