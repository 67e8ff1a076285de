"""Scores of a test set -> standard output, evaluations.jsonl, evaluation/ and metrics.jsonl."""

import hashlib
import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from transformer.monitoring import log
from transformer.monitoring.log import KINDS, Log
from transformer.storage import paths

NAME = "evaluations.jsonl"
FOLDER = "evaluation"

# Results with the same values of these are results of the same thing.
SAME = ("split", "checksum", "weights", "ensemble", "steps", "decode", "signature")


def name_of(split: str, files: Sequence[str]) -> str:
    """A test set's name, for people and as a file name: its files' stem, else its split.

    Files of two stems give both: SOURCE-REFERENCE.
    """
    names = [re.sub(r"\.(gz|xz)\Z", "", Path(file).name) for file in files]
    stems = dict.fromkeys(Path(name).stem for name in names)
    return re.sub(r"[^\w.-]", "_", "-".join(stems) or split)[:64]


def checksum(dataset: dict[str, Sequence[str]]) -> str:
    """The sha256 of a test set, {name: lines}: that of `cat SET.source SET.reference`, say."""
    return hashlib.sha256(b"".join(map(_text, dataset.values()))).hexdigest()


def free_name(workdir: Path, name: str, dataset: dict[str, Sequence[str]]) -> str:
    """The name, or one with the checksum behind it where evaluation/ has that of another set."""
    for side, lines in dataset.items():
        file = workdir / FOLDER / f"{name}.{side}"
        if file.exists() and file.read_bytes() != _text(lines):
            return f"{name}-{checksum(dataset)[:16]}"
    return name


def warn_if_unwritable(workdir: Path) -> None:
    """Warns, before the work, that its results can only be printed."""
    if paths.in_bucket(workdir):
        return
    folders = filter(Path.exists, (workdir, workdir / FOLDER))
    error = next(filter(None, map(paths.unwritable, folders)), None)
    try:
        if (workdir / NAME).exists():
            (workdir / NAME).open("ab").close()
    except OSError as cause:
        error = error or cause
    if error:
        reason = error.strerror or error
        logging.warning("%s: %s; the score is printed, and not kept there", workdir, reason)


def show(result: dict, rows: dict[str, str]) -> None:
    """Prints a result: a line of JSON; on a terminal a table, whose `rows` are {name: text}, the
    score that counts first."""
    if sys.stdout.isatty():
        rows = {"set": result["set"], **rows}
        text = "\n".join(f"{name:<14}{value}" for name, value in rows.items())
    else:
        logging.info("%s", ": ".join(next(iter(rows.items()))))
        text = json.dumps(result)
    print(text, flush=True)


def keep(
    workdir: Path, result: dict, outputs: dict[str, Sequence[str]], *, once: bool = False
) -> None:
    """Appends a result to evaluations.jsonl, and writes evaluation/SET.json and, for each of the
    outputs {name: lines}, evaluation/SET.name; logs it if the disk does not take them.

    `once`: a result of the same set, weights and settings is not added to another one.
    """
    name = result["set"]
    try:
        same = lambda line: all(line.get(key) == result.get(key) for key in SAME)
        if not (once and any(map(same, log.read(workdir, NAME)))):
            paths.append_line(workdir / NAME, json.dumps(result).encode())
        for side, lines in outputs.items():
            paths.write_file(workdir / FOLDER / f"{name}.{side}", _text(lines))
        content = json.dumps(result, indent=2).encode()
        paths.write_file(workdir / FOLDER / f"{name}.json", content)
    except OSError as error:
        logging.error("the result is not kept in %s: %s", workdir, error)
        return
    logging.info("kept in %s, outputs in %s.*", workdir / NAME, workdir / FOLDER / name)


def log_final(workdir: Path, step: int, result: dict) -> None:
    """Adds a training run's final score to metrics.jsonl, at the step the run has come to, in the
    place of an earlier one. To be called by all processes."""
    split = result["split"]
    # Validation's lines are what early stopping counts.
    kind = f"final_{split}" if split in KINDS else split
    values = {k: v for k, v in result.items() if isinstance(v, int | float | str) and k != "step"}
    try:
        log = Log(workdir, step)
        log.write(kind, step, values)
        log.close()
    except OSError as error:
        logging.error("the final score is not in metrics.jsonl: %s", error)


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
