"""Plots curves over the steps of training, from metrics.jsonl."""

import itertools
from collections.abc import Mapping, Sequence

from transformer.errors import quantity
from transformer.tools.pages import measures
from transformer.tools.pages.page import Plot, Section, Table, number
from transformer.tools.pages.run import Run

MAX_POINTS = 400  # per line; more are invisible and make the page large
MAX_IN_WORDS = 4  # lines of a plot; with more, numbers are only in the table

OPTIMISER = {"learning_rate": "As the schedule gave it.", "gradient_norm": "Before clipping."}
FIRST = ("loss", "perplexity", "accuracy")  # of both training and validation
LOGARITHMIC = ("perplexity", "word_perplexity")
LEGEND = {"symbolType": "stroke", "columns": 2, "labelLimit": 130}  # as wide as a phone's plot
STEPS = {"title": "step", "format": ",d", "tickCount": 5, "grid": False}

Points = Sequence[tuple[int, float]]  # (step, value)


def section(run: Run) -> Section:
    """Returns the curves of training and validation, a plot per measure."""
    train, validation = run.logged("train"), run.logged("validation")
    if not train and not validation:
        return Section("Curves", [f"{run.workdir} has no metrics.jsonl, which training writes."])
    about = {name: text for name, (_, _, text) in measures.MEASURES.items()} | OPTIMISER
    speeds = [x for x in dict.fromkeys(itertools.chain(*train)) if x.endswith("_per_second")]
    # Tasks may log validation scores of any name.
    scores = [x for x in itertools.chain(*validation) if x not in measures.NOT_SHOWN]
    # Each name once, in the order of the page: a dict keeps the order of first insertion.
    names = dict.fromkeys([*FIRST, *measures.MEASURES, *scores, *OPTIMISER, *speeds])
    marks = run.resumes()
    last = max(line["step"] for line in [*train, *validation])
    plots = []
    for name in names:
        title = measures.title(name)
        if name in speeds:
            unit = name.removesuffix("_per_second").capitalize()
            title = "Throughput"
            about[name] = f"{unit} a second, without validations."
        series = {"training": points(train, name), "validation": points(validation, name)}
        if any(series.values()):
            options = {"logarithmic": name in LOGARITHMIC, "marks": marks, "last": last}
            plots.append(plot(title, series, about.get(name, ""), **options))
    return Section("Curves", [_in_words(train, validation, marks), *plots])


def _in_words(train: Sequence[dict], validation: Sequence[dict], marks: Sequence[int]) -> str:
    words = f"{quantity(len(train), 'step')} and {quantity(len(validation), 'validation')} logged."
    if marks:
        words += " Vertical lines are where training was resumed."
    if skipped := max((line.get("skipped", 0) for line in train), default=0):
        words += f" Skipped, because not finite: {quantity(skipped, 'update')}."
    return words


def points(lines: Sequence[dict], name: str) -> Points:
    """Returns (step, value) of the lines in which `name` is a finite number.

    More than MAX_POINTS are thinned evenly, and the newest is kept.
    """
    # isfinite would raise OverflowError for an integer such as 10**400.
    is_number = lambda x: isinstance(x, int | float) and abs(x) < 1e300
    values = [(line["step"], line[name]) for line in lines if is_number(line.get(name))]
    # Every n-th from the newest back, then in order: steps 1 to 7 with n = 3 give 1 4 7.
    every = -(-len(values) // MAX_POINTS) or 1
    return values[::-1][::every][::-1]


def plot(
    title: str,
    series: Mapping[str, Points],
    about: str = "",
    *,
    logarithmic: bool = False,
    marks: Sequence[int] = (),
    last: int | None = None,
) -> Plot:
    """Returns a plot over the steps with a line for each of `series`, {name: points}.

    A name has the same colour in all plots whose `series` have the same names; a line without
    points is left out. There is a vertical line at each step of `marks`. The axis of steps ends at
    `last`, by default the newest step. The table has a row for each step.
    """
    drawn = {name: values for name, values in series.items() if values}
    rows = [
        {"step": step, "value": value, "series": name}
        for name, values in drawn.items()
        for step, value in values
    ]
    values = {row["value"] for row in rows}
    # A logarithmic axis needs positive values.
    logarithmic = logarithmic and min(values) > 0
    # A flat line has a single tick at its value, which rounded ticks would miss.
    ticks = {"tickCount": 4} if len(values) > 1 else {"values": [*values], "format": ",.4~r"}
    x, y = ({"field": name, "type": "quantitative"} for name in ("step", "value"))
    y |= {"title": None, "axis": {**ticks, "grid": not logarithmic}}
    y["scale"] = {"type": "log"} if logarithmic else {"zero": False}
    colour = {"field": "series", "type": "nominal", "scale": {"domain": [*series]}}
    colour["legend"] = LEGEND if len(drawn) > 1 else None
    # All plots of a run end at the same step, for comparison.
    steps = {"nice": False, "domainMin": 0, **({"domainMax": last} if last else {})}
    line = {
        "mark": {"type": "line", "point": len(rows) <= 40 * len(drawn), "tooltip": True},
        "encoding": {
            "x": {**x, "axis": STEPS, "scale": steps},
            "y": y,
            "color": colour,
            "strokeDash": colour,
        },
    }
    rules = {
        "data": {"values": [{"step": step} for step in marks]},
        "mark": {"type": "rule", "strokeDash": [2, 3]},
        "encoding": {"x": x},
    }
    layers = [line, rules] if marks else [line]
    spec = {"height": 180, "data": {"values": rows}, "layer": layers}
    return Plot(title, spec, f"{about} {_ends(drawn)}".strip(), _table(drawn))


def _ends(series: Mapping[str, Points]) -> str:
    """Returns the first and last value of each line, if there are few: 'training 6 → 1.5'."""
    if len(series) > MAX_IN_WORDS:
        return ""
    # The first and the last point; dict.fromkeys merges them if a line has only one.
    ends = {name: dict.fromkeys([values[0], values[-1]]) for name, values in series.items()}
    texts = (f"{x} {' → '.join(number(value) for _, value in ends[x])}" for x in ends)
    return f"From first to last: {', '.join(texts)}."


def _table(series: Mapping[str, Points]) -> Table:
    """Returns the numbers of a plot, a row for each step and a column for each line."""
    columns = {name: dict(values) for name, values in series.items()}
    steps = sorted(set().union(*columns.values()))
    rows = [[step, *(column.get(step, "") for column in columns.values())] for step in steps]
    return Table(["step", *columns], rows)
