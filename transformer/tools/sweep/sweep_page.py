"""The tables of a sweep for terminal, page and JSON, and the sections of the page."""

import math
import shlex
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from transformer.runtime.progress import duration
from transformer.tools.pages import settings
from transformer.tools.pages.measures import in_digits, name_of, title
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.sweep.outcomes import Outcome, PValue
from transformer.tools.sweep.sweep_file import Row


class Summary(NamedTuple):
    """A row's outcomes, one per seed, and its p-value against the first row."""

    row: Row
    outcomes: list[Outcome]
    p: PValue | None

    def finished(self) -> list[Outcome]:
        """Returns the outcomes that have a result."""
        return [outcome for outcome in self.outcomes if outcome.result]

    def scores(self, name: str) -> list[float]:
        """Returns the score `name` of each run that has it."""
        return [x.scores[name] for x in self.finished() if name in x.scores]


class Spread(NamedTuple):
    """Mean and sample standard deviation of numbers; NaN for too few."""

    mean: float
    deviation: float

    def in_words(self, name: str) -> str:
        """Returns '25.90 ± 0.79' in the digits of the score `name`; '-' without a number."""
        if math.isnan(self.deviation):
            return "-" if math.isnan(self.mean) else in_digits(name, self.mean)
        return f"{in_digits(name, self.mean)} ± {in_digits(name, self.deviation)}"


def spread(numbers: Sequence[float]) -> Spread:
    """Returns mean and deviation of numbers, some of them possibly infinite."""
    is_spread = len(numbers) > 1 and all(map(math.isfinite, numbers))
    return Spread(
        statistics.fmean(numbers) if numbers else math.nan,
        statistics.stdev(numbers) if is_spread else math.nan,
    )


def difference(summaries: Sequence[Summary], i: int, name: str) -> float:
    """Returns the mean score of row i minus that of the first row."""
    return spread(summaries[i].scores(name)).mean - spread(summaries[0].scores(name)).mean


def about(summaries: Sequence[Summary], best_by: str, best_is: str) -> list[str]:
    """Returns lines that explain the table."""
    first, name = summaries[0].row.name, title(best_by)
    lines = [
        f"{name} of the final evaluation ({best_is} is best) by seed, and its mean ± sample "
        "standard deviation.",
        f"The difference is of the means, from {first}. The time is that of a run's training "
        "steps, without validations and compiling.",
    ]
    # {(score, seed, method): rows}: the seed shared with the first row may differ between rows.
    tests = {}
    for summary in summaries:
        if summary.p:
            tests.setdefault(tuple(summary.p)[2:], []).append(summary.row.name)
    for (score, seed, test), rows in tests.items():
        whose = f"{'each row' if len(tests) == 1 else ', '.join(rows)} with seed {seed}"
        lines.append(
            f"p is of {name_of(score)}, {whose} against {first} with seed {seed}, by {test}: of "
            "these two models, whose difference is in brackets, on other test items, not of other "
            "seeds."
        )
    return lines


def score_table(summaries: Sequence[Summary], best_by: str) -> Table:
    """Returns each row's size, time, score by seed, mean, difference and p-value."""
    seeds = sorted({x.run.seed for summary in summaries for x in summary.outcomes})
    columns = ["row", "parameters", "steps", "time", *(f"seed {seed}" for seed in seeds)]
    columns += [f"{name_of(best_by)}, mean ± sd", "difference", "p"]
    rows = []
    for i, summary in enumerate(summaries):
        finished = summary.finished()
        parameters = [f"{x.parameters:,}" for x in finished]
        steps = [f"{x.steps:,}" for x in sorted(finished, key=lambda x: x.steps)]
        seconds = spread([x.seconds for x in finished]).mean
        time = "-" if math.isnan(seconds) else duration(seconds)
        row = [summary.row.name, _from_to(parameters), _from_to(steps), time]
        of_seed = {x.run.seed: x for x in summary.outcomes}
        row += [_score(of_seed.get(seed), best_by) for seed in seeds]
        row.append(spread(summary.scores(best_by)).in_words(best_by))
        change = difference(summaries, i, best_by)
        row.append(_signed(best_by, change) if i and not math.isnan(change) else "-")
        rows.append([*row, _p(summary.p) if summary.p else "-"])
    return Table(columns, rows)


def _from_to(texts: Sequence[str]) -> str:
    """Returns '900 to 1,000' for the first and the last text; '900' if they are equal."""
    return " to ".join(dict.fromkeys([texts[0], texts[-1]])) if texts else "-"


def _p(p: PValue) -> str:
    """Returns '0.032 (+4.31)': a p-value, and the difference of its two runs."""
    value = f"{p.value:.3f}" if p.value >= 0.001 else "<0.001"
    return f"{value} ({_signed(p.of, p.difference)})"


def _signed(name: str, difference: float) -> str:
    return ("+" if difference > 0 else "") + in_digits(name, difference)


def _score(outcome: Outcome | None, name: str) -> str:
    """Returns a run's score as text; 'none' without the score, '-' without a run."""
    if not outcome:
        return "-"
    return in_digits(name, outcome.scores[name]) if name in outcome.scores else "none"


def further_table(summaries: Sequence[Summary], best_by: str) -> Table:
    """Returns each row's other scores and its time per step."""
    names = [name for x in summaries for run in x.finished() for name in run.scores]
    names = [name for name in dict.fromkeys(names) if name != best_by]
    rows = []
    for summary in summaries:
        cells = [spread(summary.scores(name)).in_words(name) for name in names]
        seconds = spread([x.seconds / x.steps for x in summary.finished() if x.steps])
        rows.append([summary.row.name, *cells, seconds.in_words("seconds")])
    return Table(["row", *map(name_of, names), "s a step"], rows, "Further scores, likewise")


def values(summaries: Sequence[Summary], best_by: str, best_is: str) -> dict:
    """Returns the content of sweep.json."""
    rows = []
    for i, (row, outcomes, p) in enumerate(summaries):
        entry = {"row": row.name, "config": row.config, "overrides": row.overrides}
        entry |= spread(summaries[i].scores(best_by))._asdict()
        entry |= {"difference": difference(summaries, i, best_by), "p": p._asdict() if p else None}
        rows.append(entry | {"runs": [_run_values(outcome) for outcome in outcomes]})
    return {"score": best_by, "best_is": best_is, "rows": rows}


def _run_values(outcome: Outcome) -> dict:
    """Returns what sweep.json has of a run."""
    run, result = outcome.run, outcome.result
    values = {"seed": run.seed, "workdir": str(run.workdir), "failure": outcome.failure}
    values |= {"arguments": run.arguments, "parameters": outcome.parameters}
    values |= {"steps": outcome.steps, "seconds": outcome.seconds}
    values |= {"set": result.get("set", ""), "step": result.get("step")}
    return values | {"scores": outcome.scores}


def sections(summaries: Sequence[Summary], best_by: str, best_is: str) -> list[Section]:
    """Returns the sections of the page in order, without those that do not apply."""
    table, further = (f(summaries, best_by) for f in (score_table, further_table))
    rows = []
    for row, _, _ in summaries:
        keys = [f"{key}={settings.show(value)}" for key, value in row.overrides.items()]
        rows.append([row.name, row.config, ", ".join(keys) or "-"])
    command = shlex.join(["python", "launch.py", *summaries[0].row.runs[0].arguments])
    first = f"The first run: `{command}`"
    scores = [*about(summaries, best_by, best_is), table, *_plot(summaries, best_by), further]
    failed = {x.run.name: x.failure for row in summaries for x in row.outcomes if x.failure}
    shown = [
        Section("Scores", scores),
        Section("Rows", [Table(["row", "config", "its keys"], rows), first]),
        Section("Without a result", [failed] if failed else []),
    ]
    return [section for section in shown if section.parts]


def _plot(summaries: Sequence[Summary], name: str) -> list[Plot]:
    """Returns a plot of a point per run, and a line at each row's mean; [] without a score."""
    points = [
        {"row": x.run.row, "seed": x.run.seed, "score": x.scores[name]}
        for summary in summaries
        for x in summary.finished()
        if math.isfinite(x.scores.get(name, math.nan))
    ]
    if not points:
        return []
    score = {"field": "score", "type": "quantitative", "scale": {"zero": False}, "title": None}
    row = {"field": "row", "type": "nominal", "sort": None, "title": None}
    point = {"type": "point", "filled": True, "size": 50, "opacity": 0.7, "tooltip": True}
    line = {"type": "tick", "thickness": 2, "size": 20}
    spec = {
        "height": 28 * len({x["row"] for x in points}),
        "data": {"values": points},
        "encoding": {"y": row},
        "layer": [
            {"mark": point, "encoding": {"x": score}},
            {"mark": line, "encoding": {"x": {**score, "aggregate": "mean"}}},
        ],
    }
    cells = [[x["row"], x["seed"], in_digits(name, x["score"])] for x in points]
    about = "A point is a run, a line the mean of a row's runs."
    return [Plot(title(name), spec, about, Table(["row", "seed", "score"], cells))]
