"""--mode=classify: classifies each line of standard input: a text, A<tab>B or an image's path."""

import collections
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.decoding import batch_sizes
from transformer.distributed import layout
from transformer.families.labels import class_names, classifiers
from transformer.modes import lines
from transformer.runtime import memory, progress
from transformer.tasks import saved_model
from transformer.tasks.task import load_task

Row = dict[str, np.ndarray]  # the model's inputs for one item


def classify(config: ConfigDict, workdir: Path) -> None:
    """Writes LABEL<tab>PROBABILITY, the likeliest class, for each line of standard input.

    With `config.classify.format` 'json' an answer is an object with the probability of each class.
    The task's `reader` raises UserError for an invalid line, such as a missing image.
    """
    options = config.classify
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)
    task = load_task(config.task)
    task.check(config)
    read = task.reader(config, workdir)
    run = saved_model.load(config, workdir)
    interactive = sys.stdin.isatty()
    if interactive:
        logging.info("ready: type a line and press Enter; Ctrl-D ends")
    # On a terminal, answer each line at once, without a progress bar.
    total = lines.count(sys.stdin.buffer)
    with progress.counter("classify", total=total, hidden=interactive) as advance:
        numbered = enumerate(lines.read(sys.stdin.buffer), start=1)
        items = ((text, read(text, number)) for number, text in numbered)
        for chunk in batch_sizes.chunks(items, 1 if interactive else options.chunk_lines):
            texts, rows = zip(*chunk, strict=True)
            answers = probabilities(run, rows, options.batch_size)
            for text, row in zip(texts, answers, strict=True):
                lines.write(sys.stdout.buffer, _format(text, row, names, options.format))
            advance(len(texts))


def probabilities(
    run: saved_model.SavedModel, rows: Sequence[Row], batch_size: int
) -> list[np.ndarray]:
    """Returns the probabilities [V] of each row, in order.

    Rows of equal shapes are computed together, at most `batch_size` at a time. Their number is
    rounded up to a power of 4 on each device, for few static shapes.
    """
    # Keyed by the shapes of a row's inputs, as of texts of one static length.
    groups, results = collections.defaultdict(list), [None] * len(rows)
    for i, row in enumerate(rows):
        groups[tuple(x.shape for x in row.values())].append(i)
    for group in groups.values():
        for batch in batch_sizes.chunks(group, batch_size):
            what = f"a batch of {len(batch)} lines"
            with memory.fits_in_memory(what, "lower config.classify.batch_size"):
                probabilities_BV = _batch_probabilities(run, [rows[i] for i in batch])
            for i, row_V in zip(batch, probabilities_BV, strict=False):  # then padding
                results[i] = row_V
    return results


def _batch_probabilities(run: saved_model.SavedModel, rows: list[Row]) -> np.ndarray:
    """Returns the probabilities [B, V] of rows of equal shapes; padding rows come last."""
    padded = batch_sizes.rows_in_powers_of_4(len(rows), layout.num_devices(run.params))
    padding = [jax.tree.map(np.zeros_like, rows[0])] * (padded - len(rows))
    inputs = jax.tree.map(lambda *arrays: np.stack(arrays), *rows, *padding)
    inputs = layout.shard_rows(inputs, run.params)
    return np.asarray(classifiers.probabilities(run.params, inputs, model=run.model))


def _format(text: str, row: np.ndarray, names: tuple[str, ...], form: str) -> str:
    """Returns the output line of one input line; `row` has the probability of each class."""
    best = int(row.argmax())
    if form == "text":
        return f"{names[best]}\t{row[best]:.6f}"
    all_classes = {name: float(p) for name, p in zip(names, row, strict=True)}
    answer = {"input": text, "label": names[best], "probability": float(row[best])}
    return lines.to_json({**answer, "probabilities": all_classes})
