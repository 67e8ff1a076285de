"""Curves over the steps of training, from metrics.jsonl."""

import itertools
import math
from collections.abc import Mapping, Sequence

from transformer.runtime.progress import quantity
from transformer.tools.pages.measures import LEFT_OUT, SCORES, TRAINED, spelt
from transformer.tools.pages.page import Plot, Section, Table, number
from transformer.tools.pages.run import Run

MOST_POINTS = 400  # of a line: more are not seen, but make the page large

OPTIMISED = {"learning_rate": "As the schedule gave it.", "gradient_norm": "Before clipping."}
KINDS = ("training", "validation")
LOGARITHMIC = ("perplexity", "word_perplexity")

Points = Sequence[tuple[int, float]]  # (step, value)


def section(run: Run) -> Section:
    """Returns the curves of training and validation, a plot for each measure."""
    train, validation = run.of_kind("train"), run.of_kind("validation")
    if not train and not validation:
        return Section(
            "Curves",
            [f"{run.workdir} has no metrics.jsonl, which training writes beside its checkpoints."],
        )
    rates = [
        name for name in dict.fromkeys(itertools.chain(*train)) if name.endswith("_per_second")
    ]
    known = {**TRAINED, **SCORES, **OPTIMISED}
    others = [name for line in validation for name in line if name not in {*known, *LEFT_OUT}]
    marks, last = run.resumes(), max(line["step"] for line in [*train, *validation])
    plots = []
    for name in [*TRAINED, *SCORES, *dict.fromkeys(others), *OPTIMISED, *rates]:
        unit = name.removesuffix("_per_second")
        title, about = spelt(name), known.get(name, "")
        if name in rates:
            title, about = "throughput", f"{unit.capitalize()} a second, without validations."
        series = {"training": points(train, name), "validation": points(validation, name)}
        series = {kind: values for kind, values in series.items() if values}
        if series:
            options = {"logarithmic": name in LOGARITHMIC, "marks": marks, "last": last}
            plots.append(plot(capitalised(title), series, about, names=KINDS, **options))
    return Section("Curves", [_prose(train, validation, marks), *plots])


def _prose(train: Sequence[dict], validation: Sequence[dict], marks: Sequence[int]) -> str:
    words = [
        f"{quantity(len(train), 'step')} and {quantity(len(validation), 'validation')} logged."
    ]
    if marks:
        words.append("Vertical lines are where training was resumed.")
    if skipped := max((line.get("skipped", 0) for line in train), default=0):
        words.append(f"{skipped} updates were skipped, because they were not finite.")
    return " ".join(words)


def capitalised(title: str) -> str:
    """Returns a title that begins with a capital, but for chrF."""
    return title if title == "chrF" else title[:1].upper() + title[1:]


def points(lines: Sequence[dict], name: str) -> Points:
    """Returns (step, value) of the lines in which `name` is a finite number.

    Returns at most MOST_POINTS of them, evenly spaced, with the newest.
    """
    is_number = lambda x: isinstance(x, int | float) and math.isfinite(x)
    values = [(line["step"], line[name]) for line in lines if is_number(line.get(name))]
    # Every n-th from the newest back, then in order: of steps 1 to 7 and n = 3 these are 1 4 7.
    every = -(-len(values) // MOST_POINTS) or 1
    return values[::-1][::every][::-1]


def plot(
    title: str,
    series: Mapping[str, Points],
    about: str = "",
    *,
    names: Sequence[str] = (),
    logarithmic: bool = False,
    marks: Sequence[int] = (),
    last: int | None = None,
) -> Plot:
    """Returns a plot of lines over the steps, one for each of `series`, {name: points}.

    A name has the same colour in all plots with the same `names`, by default those of `series`.
    `marks` are steps at which there is a vertical line, `last` is where the axis of steps ends, by
    default the newest step. The table has a row for each step.
    """
    rows = [
        {"step": step, "value": value, "series": name}
        for name, values in series.items()
        for step, value in values
    ]
    logarithmic = logarithmic and all(row["value"] > 0 for row in rows)
    colour = {"field": "series", "type": "nominal", "scale": {"domain": list(names or series)}}
    legend = LEGEND if len(series) > 1 else None
    # All plots of a run end at the same step, so that they can be compared one below the other.
    end = {"domainMax": last} if last else {}
    steps = {"nice": False, "domainMin": 0, **end}
    line = {
        "mark": {"type": "line", "point": len(rows) <= 40 * len(series), "tooltip": True},
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "axis": STEPS, "scale": steps},
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "scale": {"type": "log"} if logarithmic else {"zero": False},
                "axis": {**_ticks(rows), "grid": not logarithmic},
            },
            "color": {**colour, "legend": legend},
            "strokeDash": {**colour, "legend": legend},
        },
    }
    rules = {
        "data": {"values": [{"step": step} for step in marks]},
        "mark": {"type": "rule", "strokeDash": [2, 3]},
        "encoding": {"x": {"field": "step", "type": "quantitative"}},
    }
    layers = [line, rules] if marks else [line]
    return Plot(
        title,
        {"height": 180, "data": {"values": rows}, "layer": layers},
        " ".join(filter(None, [about, _ends(series)])),
        _table(series),
    )


MOST_IN_WORDS = 4  # lines of a plot; of more, only the table has the numbers
LEGEND = {"symbolType": "stroke", "columns": 2, "labelLimit": 130}  # as wide as a phone's plot
STEPS = {"title": "step", "format": ",d", "tickCount": 5, "grid": False}


def _ticks(rows: Sequence[dict]) -> dict:
    """Returns the ticks of the axis of values; of a single value, one tick that is not rounded."""
    values = {row["value"] for row in rows}
    return {"values": [*values], "format": ",.4~r"} if len(values) == 1 else {"tickCount": 4}


def _ends(series: Mapping[str, Points]) -> str:
    """Says in words where the lines begin and end, if there are few."""
    if len(series) > MOST_IN_WORDS:
        return ""
    ends = ", ".join(
        f"{name} from {number(values[0][1])} to {number(values[-1][1])}"
        if len(values) > 1
        else f"{name} {number(values[0][1])}"
        for name, values in series.items()
    )
    return (
        f"{capitalised(ends) if series.keys() <= {*KINDS} else ends}."  # others are names of runs
    )


def _table(series: Mapping[str, Points]) -> Table:
    """Returns the numbers of a plot, a row for each step and a column for each line."""
    columns = {name: dict(values) for name, values in series.items()}
    steps = sorted(set().union(*columns.values()))
    rows = [[step, *(column.get(step, "") for column in columns.values())] for step in steps]
    return Table(["step", *columns], rows)
