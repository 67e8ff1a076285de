"""The names of the classes: vocabulary/labels.txt, one line per class, in the order of ids."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.tasks import vocabularies

NAME = "labels.txt"


def check(labels: Sequence[str], source: str) -> None:
    """Raises UserError for fewer than two classes, or a label that an output line cannot hold.

    `source` is where the labels were read, for the message.
    """
    if len(labels) < 2:
        raise UserError(f"{source} has the class {labels[0]!r} alone: a classifier needs two")
    for label in labels:
        # --mode=classify writes LABEL<tab>PROBABILITY, and labels.txt has one label per line.
        if not label.strip() or any(character in label for character in "\t\r\n"):
            raise UserError(f"{source}: a label is text on one line without tabs, found {label!r}")


def prepare(
    config: ConfigDict,
    workdir: Path,
    saved_config: ConfigDict | None,
    labels: Sequence[str],
    files: Sequence[str],
) -> tuple[str, ...]:
    """Returns the labels of a run: `labels`, which a new run writes, or those of its workdir.

    Fills in `vocabulary.labels_fingerprint` and `data.num_classes`. `saved_config` is as in a
    task's `prepare`; `files` are the training split's, for error messages.
    """
    if saved_config is None:
        check(labels, " and ".join(files) or config.data.corpus)
        write(workdir, labels)
    else:
        labels = read(workdir, saved_config.vocabulary.get("labels_fingerprint", ""))
    config.vocabulary.labels_fingerprint = fingerprint(labels)
    config.data.num_classes = len(labels)
    return tuple(labels)


def write(workdir: Path, labels: Sequence[str]) -> None:
    """Writes the labels into WORKDIR/vocabulary, with checksums."""
    vocabularies.write_files(workdir, {NAME: _text(labels)})


def read(workdir: Path, expected: str) -> tuple[str, ...]:
    """Returns the labels of a workdir.

    UserError if the file is missing or damaged, or if its fingerprint differs from `expected` (""
    if unknown).
    """
    content = vocabularies.read_files(workdir, [NAME])[NAME]
    # splitlines would also end a label at U+2028.
    labels = tuple(content.decode().removesuffix("\n").split("\n"))
    vocabularies.check_fingerprint(workdir, fingerprint(labels), expected)
    return labels


def number(config: ConfigDict, workdir: Path | None) -> int:
    """Returns the number of classes of a workdir; if `workdir` is None, of the config."""
    if workdir is None:
        return config.data.num_classes
    return len(read(workdir, config.vocabulary.labels_fingerprint))


def fingerprint(labels: Sequence[str]) -> str:
    """Returns a hash of the labels and their order, which define the class ids."""
    return hashlib.sha256(_text(labels)).hexdigest()[:16]


def class_ids(
    labels: Sequence[str], classes: Sequence[str], *, place: Callable[[int], str]
) -> np.ndarray:
    """Returns the class id of each item's label, int32.

    UserError for a label that training lacks; place(i) is the origin of item i, such as
    'test.tsv, line 3'.
    """
    # A dict, because `classes.index` would search 1,000 classes for each of a million images.
    ids = {name: i for i, name in enumerate(classes)}
    for i, label in enumerate(labels):
        if label not in ids:
            shown = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
            raise UserError(
                f"{place(i)}: the label {label!r} is in no training item; the classes are {shown}"
            )
    return np.array([ids[label] for label in labels], np.int32)


def _text(labels: Sequence[str]) -> bytes:
    return "".join(f"{label}\n" for label in labels).encode()
