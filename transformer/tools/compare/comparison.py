"""Compares runs that were evaluated on the same test set, as values."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError
from transformer.tools.compare.kinds import kind_of
from transformer.tools.compare.significance import Measure
from transformer.tools.pages import lengths
from transformer.tools.pages.evaluated import Evaluated
from transformer.workdir import results

# Keys on which scores depend besides the model, and which of these change the speed alone.
SCORING = ("decode.", "evaluate.weights", "evaluate.ensemble")
OF_SPEED = ("decode.batch_tokens", "decode.chunk_lines", "decode.workers")


class Item(NamedTuple):
    """A line of the test set: its number, from 1, its text, and each run's output and score for it.

    What a line is scored by depends on the kind of result (kinds.py).
    """

    number: int
    line: dict[str, str]
    outputs: list[str]
    scores: list[float]


class Bucket(NamedTuple):
    """The sentences whose length is in a range: how many they are, and all runs' scores on them."""

    count: int
    measures: dict[str, Measure]


class Comparison(NamedTuple):
    """Several runs on one test set; the first is the baseline. All lists have the runs' order."""

    runs: list[Evaluated]
    names: list[str]  # of the runs: that of the workdir, its path where names are the same
    parameters: list[int]
    measures: dict[str, Measure]  # scores with intervals and p-values
    scores: dict[str, list[float]]  # further scores of the results, such as the loss
    unit: str  # of the source's length: 'words', or 'characters' in a script without spaces
    lengths: dict[str, Bucket]  # by length, and 'all'; {} where there are no translations
    config: dict[str, list]  # the keys that differ; None: a run does not have it
    items: list[Item]  # those on which the runs differ most


def compare(
    runs: Sequence[Evaluated],
    configs: Sequence[dict[str, object]],
    parameters: Sequence[int],
    *,
    resamples: int,
    num_items: int,
) -> Comparison:
    """Compares runs that `evaluated.check_same` accepts; `configs` are their flat configs."""
    measures = measure(runs, resamples)
    for name, scores in measures.items():
        _check_saved(runs, name, scores)
    # Whole numbers are counts.
    numbers = [{key: x for key, x in run.result.items() if isinstance(x, float)} for run in runs]
    others = dict.fromkeys(itertools.chain(*numbers))
    return Comparison(
        list(runs),
        _names(runs),
        list(parameters),
        measures,
        {key: [x.get(key) for x in numbers] for key in others if key not in measures},
        *by_length(runs, resamples),
        differing(configs),
        most_different(runs, num_items),
    )


def by_length(runs: Sequence[Evaluated], resamples: int) -> tuple[str, dict[str, Bucket]]:
    """Returns the unit of length and {bucket of lengths: scores}; ("", {}) but for translations."""
    kind = kind_of(runs[0])
    if not (kind and kind.has_lengths):
        return "", {}
    unit, of_source = lengths.length_of(runs[0].side("input"))
    buckets = {}
    # Line i is the same sentence in all runs, so that a bucket's indices fit the sides of each.
    for name, lines in lengths.buckets(of_source, lengths.edges(of_source)).items():
        chosen = [
            run._replace(sides={side: [x[i] for i in lines] for side, x in run.sides.items()})
            for run in runs
        ]
        buckets[name] = Bucket(len(lines), measure(chosen, resamples))
    return unit, buckets


def measure(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Computes the runs' scores again, from their outputs; {} without outputs of single items."""
    kind = kind_of(runs[0])
    return kind.measure(runs, resamples) if kind else {}


def _names(runs: Sequence[Evaluated]) -> list[str]:
    """Returns the names of the workdirs, or their paths if two have the same name."""
    names = [run.run.workdir.resolve().name for run in runs]
    return names if len({*names}) == len(names) else [str(run.run.workdir) for run in runs]


def _check_saved(runs: Sequence[Evaluated], name: str, measure: Measure) -> None:
    """Raises UserError if a run's outputs do not have the score that was saved with them."""
    for run, score in zip(runs, measure.scores, strict=True):
        if not np.isfinite(value := score.interval.value):
            raise UserError(
                f"{name} of {run.run.workdir} is {value}: a model that has diverged cannot "
                "be compared"
            )
        saved = run.result.get(name, value)
        is_number = isinstance(saved, int | float)
        if not (is_number and math.isclose(value, saved, rel_tol=1e-3, abs_tol=1e-3)):
            raise UserError(
                f"damaged: {name} of the outputs in {run.run.workdir}/{results.FOLDER} is "
                f"{value:.4f}, the result says {saved}; evaluate again: "
                f"{run.run.command('evaluate')}"
            )


def differing(configs: Sequence[dict[str, object]]) -> dict[str, list]:
    """Returns {key: one value per run} for the keys on which the configs differ.

    The value is None for a run whose config lacks the key.
    """
    keys = sorted(set().union(*configs))
    table = {key: [config.get(key) for config in configs] for key in keys}
    return {key: values for key, values in table.items() if any(x != values[0] for x in values)}


def scoring(comparison: Comparison) -> dict[str, list]:
    """Returns the differing keys on which scores depend besides the model, as `differing` does."""
    return {
        key: values
        for key, values in comparison.config.items()
        if key.startswith(SCORING) and key not in OF_SPEED
    }


def most_different(runs: Sequence[Evaluated], count: int) -> list[Item]:
    """Returns the lines whose scores differ most between the best and the worst run."""
    kind, columns, dataset = kind_of(runs[0]), runs[0].result["columns"], runs[0].dataset()
    if not kind:
        return []
    output = columns.get("output", columns.get("measure"))
    scores = np.array([kind.line_scores(run) for run in runs])  # [runs, lines]
    spread = scores.max(axis=0) - scores.min(axis=0)
    # Of the largest spread first; a stable sort keeps lines of equal spread in their order.
    order = np.argsort(-spread, kind="stable")[:count]
    return [
        Item(
            int(i) + 1,
            {side: runs[0].sides[side][i] for side in dataset},
            [run.sides[output][i] for run in runs],
            scores[:, i].tolist(),
        )
        for i in order
        if spread[i] > 0
    ]


def values(comparison: Comparison) -> dict:
    """Returns a comparison as the values that --mode=compare prints as JSON."""
    runs, first = [], comparison.runs[0].result
    for i, run in enumerate(comparison.runs):
        numbers = ((name, x[i]) for name, x in comparison.scores.items())
        others = {name: {"value": x} for name, x in numbers if x is not None}
        run_values = {
            "workdir": str(run.run.workdir),
            **{key: run.result[key] for key in ("step", "steps", "weights")},
            "parameters": comparison.parameters[i],
            "scores": _with_intervals(comparison.measures, i) | others,
        }
        if comparison.lengths:
            run_values["lengths"] = {
                name: {"sentences": x.count, **_with_intervals(x.measures, i)}
                for name, x in comparison.lengths.items()
            }
        runs.append(run_values)
    return {
        **{key: first[key] for key in ("set", "split", "checksum")},
        "scoring": scoring(comparison),
        "runs": runs,
        "tests": {name: measure.how for name, measure in comparison.measures.items()},
        "config": comparison.config,
        "lines": [{"line": x.number, "scores": x.scores} for x in comparison.items],
    }


def _with_intervals(measures: dict[str, Measure], i: int) -> dict[str, dict]:
    """Returns {score: {value, interval, p}} of run i."""
    scores = {name: measure.scores[i] for name, measure in measures.items()}
    return {
        name: {"value": interval.value, "interval": [interval.low, interval.high], "p": p}
        for name, (interval, p) in scores.items()
    }
