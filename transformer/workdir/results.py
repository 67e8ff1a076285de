"""Prints results, the scores of a test set, and saves them in the workdir.

evaluations.jsonl has one JSON object per result. evaluation/SET.json and SET.* have the latest
result of each test set, its inputs and its outputs.
"""

import hashlib
import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from transformer.runtime import paths
from transformer.workdir import log
from transformer.workdir.log import KINDS, RESULTS, Log, OnLog

FOLDER = "evaluation"

# Results of the same test set, weights and settings have equal values of these keys.
SAME = ("split", "checksum", "weights", "ensemble", "steps", "decode", "signature")


def name_of(split: str, files: Sequence[str]) -> str:
    """Returns a test set's name, fit for a file name: its files' stem, or else its split.

    Example: flickr.en and flickr.de.gz have the name flickr; news.src.en and news.ref.de have
    news.src-news.ref.
    """
    names = [re.sub(r"\.(gz|xz)\Z", "", Path(file).name) for file in files]
    stems = dict.fromkeys(Path(name).stem for name in names)
    return re.sub(r"[^\w.-]", "_", "-".join(stems) or split)[:64]


def checksum(dataset: dict[str, Sequence[str]]) -> str:
    """Returns the sha256 of a test set's files, in order (`cat SET.source SET.reference`)."""
    return hashlib.sha256(b"".join(map(_text, dataset.values()))).hexdigest()


def free_name(workdir: Path, name: str, dataset: dict[str, Sequence[str]]) -> str:
    """Returns the name; the checksum is appended if evaluation/ has another set of that name."""
    for side, lines in dataset.items():
        file = workdir / FOLDER / f"{name}.{side}"
        if file.exists() and file.read_bytes() != _text(lines):
            return f"{name}-{checksum(dataset)[:16]}"
    return name


def show(result: dict, rows: dict[str, str]) -> None:
    """Prints a result to standard output.

    A terminal gets `rows`, {name: text}, as a table. Otherwise the result is printed as a line of
    JSON, and the first row, the main score, is logged.
    """
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
    """Appends a result to evaluations.jsonl and writes it to evaluation/SET.json.

    Each of `outputs`, {name: lines}, becomes evaluation/SET.name. With `once`, the line is appended
    only if no line has the same set, weights and settings.
    """
    name = result["set"]
    is_same = lambda line: all(line.get(key) == result.get(key) for key in SAME)
    if not (once and any(map(is_same, log.read(workdir, RESULTS)))):
        paths.append_line(workdir / RESULTS, json.dumps(result).encode())
    for side, lines in outputs.items():
        paths.write_file(workdir / FOLDER / f"{name}.{side}", _text(lines))
    paths.write_file(workdir / FOLDER / f"{name}.json", json.dumps(result, indent=2).encode())
    logging.info("result saved in %s, outputs in %s.*", workdir / RESULTS, workdir / FOLDER / name)


def log_final(workdir: Path, step: int, result: dict, listeners: Sequence[OnLog] = ()) -> None:
    """Logs a training run's final score, and replaces an older one in metrics.jsonl. Collective.

    `step` is the step that the run has reached. The line has the result's step, which is earlier if
    the best params were scored.
    """
    split = result["split"]
    # Not 'validation' itself, because early stopping counts lines of that kind.
    kind = f"final_{split}" if split in KINDS else split
    values = {k: v for k, v in result.items() if isinstance(v, int | float | str) and k != "step"}
    run_log = Log(workdir, step, listeners)
    run_log.write(kind, result["step"], values)
    run_log.close()


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
