"""Compares runs that were evaluated on the same test set, as values."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError
from transformer.tools.compare.evaluated import Evaluated
from transformer.tools.compare.kinds import Kind, Measure, kind_of
from transformer.tools.pages import lengths
from transformer.tools.pages.run import num_parameters
from transformer.workdir import results
from transformer.workdir.key_tables import flatten
from transformer.workdir.saved_config import MACHINE, read_config

# Keys, or beginnings of keys, on which scores depend besides the model, except for SPEED.
SCORING = ("decode.", "evaluate.weights", "evaluate.ensemble")
SPEED = ("decode.batch_tokens", "decode.chunk_lines", "decode.workers")


class Item(NamedTuple):
    """A line of the test set: its number, from 1, its text, and each run's output and score.

    Each kind of result has its own score of a line (kinds.py), such as a sentence's chrF.
    """

    number: int
    line: dict[str, str]
    outputs: list[str]
    scores: list[float]


class Bucket(NamedTuple):
    """The number of sentences whose length is in a range, and all runs' scores on them."""

    count: int
    measures: dict[str, Measure]


class Comparison(NamedTuple):
    """Several runs on one test set; the first is the baseline. All lists have the runs' order."""

    runs: list[Evaluated]
    names: list[str]  # of the workdirs; their paths if two have the same name
    kind: Kind | None  # of their results
    parameters: list[int]
    measures: dict[str, Measure]  # scores with intervals and p-values
    scores: dict[str, list[float]]  # further scores of the results, such as the loss
    unit: str  # of the source's length: 'words', or 'characters' in a script without spaces
    lengths: dict[str, Bucket]  # by length, and 'all'; {} unless the outputs are translations
    config: dict[str, list]  # {key that differs: a value per run}; None: the run lacks the key
    items: list[Item]  # the lines on which the runs differ most


def compare(runs: Sequence[Evaluated], *, resamples: int, num_items: int) -> Comparison:
    """Compares runs that `evaluated.check_same` accepts."""
    kind = kind_of(runs[0])
    measures = kind.measure(runs, resamples) if kind else {}
    for name, measure in measures.items():
        _check_saved(runs, name, measure)
    # Integers are counts, of sentences for example; floats are scores.
    numbers = [{key: x for key, x in run.result.items() if isinstance(x, float)} for run in runs]
    keys = [x for x in dict.fromkeys(itertools.chain(*numbers)) if not x.endswith("_ci")]
    further = [key for key in keys if key not in measures]
    # runs/a and runs/b are 'a' and 'b'; old/base and new/base keep their paths.
    names = [run.run.workdir.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.run.workdir) for run in runs]
    unit, buckets = by_length(runs, kind, resamples)
    return Comparison(
        runs=list(runs),
        names=names,
        kind=kind,
        parameters=[num_parameters(run.run) for run in runs],
        measures=measures,
        scores={key: [x.get(key) for x in numbers] for key in further},
        unit=unit,
        lengths=buckets,
        config=differing([_settings(run) for run in runs]),
        items=most_different(runs, kind, num_items) if kind else [],
    )


def by_length(
    runs: Sequence[Evaluated], kind: Kind | None, resamples: int
) -> tuple[str, dict[str, Bucket]]:
    """Returns the unit of length and {bucket: scores}; ("", {}) unless outputs are translations."""
    if not (kind and kind.has_lengths):
        return "", {}
    unit, rows = lengths.buckets(runs[0].sides["input"])
    buckets = {}
    for name, lines in rows.items():
        # Line i is the same sentence in all runs: a bucket's indices fit the sides of every run.
        chosen = []
        for run in runs:
            sides = {role: [side[i] for i in lines] for role, side in run.sides.items()}
            chosen.append(run._replace(sides=sides))
        buckets[name] = Bucket(len(lines), kind.measure(chosen, resamples))
    return unit, buckets


def _check_saved(runs: Sequence[Evaluated], name: str, measure: Measure) -> None:
    """Raises UserError if a run's outputs do not have the score that was saved with them."""
    for run, score in zip(runs, measure.scores, strict=True):
        # NaN differs from every saved score: without this check it would be reported as damage.
        value, workdir = score.interval.value, run.run.workdir
        if not np.isfinite(value):
            raise UserError(
                f"{name} of {workdir} is {value}: a model that has diverged cannot be compared"
            )
        # A result without this score cannot disagree. The tolerance is for rounding: a language
        # model's outputs have 6 digits.
        saved = run.result.get(name, value)
        is_number = isinstance(saved, int | float)
        if not (is_number and math.isclose(value, saved, rel_tol=1e-3, abs_tol=1e-3)):
            raise UserError(
                f"damaged: {name} of the outputs in {workdir}/{results.FOLDER} is {value:.4f}, the "
                f"result says {saved}; evaluate again: {run.run.command('evaluate')}"
            )


def _settings(run: Evaluated) -> dict[str, object]:
    """Returns the flat config of a run, with the settings of its evaluation."""
    # `run.config` has defaults for the machine's keys, and no versions: config.json has both.
    saved, result = flatten(read_config(run.run.workdir)), run.result
    settings = flatten(run.run.config)
    settings |= {key: x for key, x in saved.items() if key.startswith((*MACHINE, "versions."))}
    settings |= {f"decode.{key}": x for key, x in result.get("decode", {}).items()}
    return settings | {f"evaluate.{key}": result.get(key, "") for key in ("weights", "ensemble")}


def differing(configs: Sequence[dict[str, object]]) -> dict[str, list]:
    """Returns {key: one value per run} for the keys on which the configs differ.

    The value is None for a run whose config lacks the key.
    """
    # The union of all keys: the runs may be from different versions of the code.
    keys = sorted(set().union(*configs))
    table = {key: [config.get(key) for config in configs] for key in keys}
    return {key: values for key, values in table.items() if any(x != values[0] for x in values)}


def scoring(comparison: Comparison) -> dict[str, list]:
    """Returns the differing keys on which scores depend besides the model, as `differing` does."""
    keys = [key for key in comparison.config if key.startswith(SCORING) and key not in SPEED]
    return {key: comparison.config[key] for key in keys}


def most_different(runs: Sequence[Evaluated], kind: Kind, count: int) -> list[Item]:
    """Returns the lines whose scores differ most between the best and the worst run."""
    scores = np.array([kind.line_scores(run) for run in runs])  # [runs, lines]
    spread = scores.max(axis=0) - scores.min(axis=0)
    items = []
    # The largest spread first; a stable sort keeps lines of equal spread in their order.
    for i in np.argsort(-spread, kind="stable")[:count].tolist():
        if spread[i] > 0:
            line = {name: side[i] for name, side in runs[0].dataset().items()}
            outputs = [run.sides[kind.roles[-1]][i] for run in runs]
            items.append(Item(i + 1, line, outputs, scores[:, i].tolist()))
    return items


def values(comparison: Comparison) -> dict:
    """Returns a comparison as the values that --mode=compare prints as JSON."""
    # Set, split and checksum are the same in all results.
    runs, first = [], comparison.runs[0].result
    for i, run in enumerate(comparison.runs):
        further = {x: {"value": y[i]} for x, y in comparison.scores.items() if y[i] is not None}
        run_values = {"workdir": str(run.run.workdir), "parameters": comparison.parameters[i]}
        run_values |= {key: run.result[key] for key in ("step", "steps", "weights")}
        run_values["scores"] = _with_intervals(comparison.measures, i) | further
        if comparison.lengths:
            run_values["lengths"] = {
                name: {"sentences": x.count, **_with_intervals(x.measures, i)}
                for name, x in comparison.lengths.items()
            }
        runs.append(run_values)
    return {key: first[key] for key in ("set", "split", "checksum")} | {
        "scoring": scoring(comparison),
        "runs": runs,
        "tests": {name: measure.how for name, measure in comparison.measures.items()},
        "config": comparison.config,
        "lines": [{"line": x.number, "scores": x.scores} for x in comparison.items],
    }


def _with_intervals(measures: dict[str, Measure], i: int) -> dict[str, dict]:
    """Returns {score: {value, interval, p}} of run i."""
    scores = ((name, *measure.scores[i]) for name, measure in measures.items())
    return {x: {"value": y.value, "interval": [y.low, y.high], "p": p} for x, y, p in scores}
