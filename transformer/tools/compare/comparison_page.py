"""Shows a comparison: its tables, for a terminal and a page, and the sections of the page."""

from transformer.tools.compare import comparison
from transformer.tools.compare.comparison import Comparison
from transformer.tools.pages import curves, lengths, measures, sentences, settings
from transformer.tools.pages.measures import in_digits, name_of
from transformer.tools.pages.page import Plot, Section, Table


def about(compared: Comparison) -> list[str]:
    """Returns lines on the test set, on settings that differ, and on how to read the scores."""
    first = compared.runs[0].result
    lines = [f"Test set {first['set']} (checksum {first['checksum'][:12]})."]
    if differing := comparison.scoring(compared):
        keys = [f"{key} {', '.join(map(setting, row))}" for key, row in differing.items()]
        lines.append(
            f"The runs were not scored alike ({'; '.join(keys)}): what differs may be due to this, "
            "not to the models."
        )
    if compared.measures:
        baseline = compared.names[0]
        lines.append(f"In brackets is the 95 % interval. p is of the difference from {baseline}.")
    else:
        lines.append("No intervals, no p-values: these scores have none, or no outputs were kept.")
    return lines


def score_table(compared: Comparison) -> Table:
    """Returns a row per run: the scores with intervals and p-values, parameters, steps, weights."""
    # Rows grow by two columns per measure; the baseline, rows[0], has no p-value.
    columns, rows = ["run"], [[name] for name in compared.names]
    for name, measure in compared.measures.items():
        columns += [name_of(name), "p"]
        for row, score in zip(rows, measure.scores, strict=True):
            p = f"{score.p:.3f}" if score.p >= 0.001 else "<0.001"
            row += [in_digits(name, score.interval), "-" if row is rows[0] else p]
    columns += ["parameters", "step", "weights"]
    for row, run, parameters in zip(rows, compared.runs, compared.parameters, strict=True):
        steps = ", ".join(map(str, run.result["steps"]))
        row += [f"{parameters:,}", steps, run.result["weights"]]
    return Table(columns, rows)


def further_table(compared: Comparison) -> Table:
    """Returns a row per run: the scores without intervals."""
    shown = lambda x: "-" if x is None else f"{x:.4g}"
    rows = []
    for i, name in enumerate(compared.names):
        rows.append([name, *(shown(numbers[i]) for numbers in compared.scores.values())])
    columns = ["run", *map(name_of, compared.scores)]
    return Table(columns, rows, "Further scores of the same evaluations")


def length_table(compared: Comparison, name: str) -> Table:
    """Returns a row per run, with a column per bucket of lengths."""
    # The first row has the numbers of sentences, which are the same for all runs.
    buckets = compared.lengths.values()
    rows = [["sentences", *(f"{bucket.count:,}" for bucket in buckets)]]
    for i, run in enumerate(compared.names):
        scores = [bucket.measures[name].scores[i] for bucket in buckets]
        rows.append([run, *(in_digits(name, score.interval) for score in scores)])
    return Table([f"{name_of(name)} by {compared.unit}", *compared.lengths], rows)


def config_table(compared: Comparison) -> Table:
    """Returns a row per key that differs, with a column per run."""
    rows = [[key, *map(setting, row)] for key, row in compared.config.items()]
    return Table(["config", *compared.names], rows)


def setting(value: object) -> str:
    """Returns a value of a config as text; '-' for a key that the run lacks."""
    return "-" if value is None else settings.show(value)


def title(compared: Comparison) -> str:
    """Returns the title of the page: 'a and b', or 'a and 3 others'."""
    first, *others = compared.names
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'}"


def sections(compared: Comparison) -> list[Section]:
    """Returns the sections of the page in order, without those that do not apply."""
    config = ["What differs:", config_table(compared)]
    shown = [
        _scores(compared),
        Section("Config", config if compared.config else ["The configs are the same."]),
        _curves(compared),
        _lengths(compared),
        _lines(compared),
    ]
    # Curves need logs, lengths need translations, lines need scores that differ.
    return [section for section in shown if section.parts]


def _scores(compared: Comparison) -> Section:
    """Returns the scores, plots of their intervals, and the methods of intervals and p-values."""
    plots = [_intervals(compared, name) for name in compared.measures]
    methods = {f"p of {name_of(name)}": x.how for name, x in compared.measures.items()}
    table, further = score_table(compared), further_table(compared)
    return Section("Scores", [*about(compared), table, *plots, methods, further])


def _intervals(compared: Comparison, name: str) -> Plot:
    """Returns a plot of a score: a point per run, with its 95 % interval."""
    rows, words = [], []
    for run, score in zip(compared.names, compared.measures[name].scores, strict=True):
        value, low, high = score.interval
        rows.append({"run": run, "score": value, "low": low, "high": high})
        words.append(f"{run} {in_digits(name, score.interval)}")
    axis = {"type": "quantitative", "scale": {"zero": False}, "title": None}
    colours = {"type": "nominal", "scale": {"domain": compared.names}, "legend": None}
    ends = {"x": {"field": "low", **axis}, "x2": {"field": "high"}}
    point = {"type": "point", "filled": True, "size": 70, "tooltip": True}
    # A rule from low to high, and a point at the score, in the colour of the run's curve.
    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": ends},
        {"mark": point, "encoding": {"x": {"field": "score", **axis}}},
    ]
    place = {"field": "run", "type": "nominal", "sort": None, "title": None}
    encoding = {"y": place, "color": {"field": "run", **colours}}
    spec = {"height": 32 * len(rows), "data": {"values": rows}}
    spec |= {"encoding": encoding, "layer": layers}
    listed = f": {', '.join(words)}" if len(words) <= curves.MAX_IN_WORDS else ""
    about = f"With 95 % intervals{listed}."
    table = Table(["run", "score", "low", "high"], [list(row.values()) for row in rows])
    return Plot(name_of(name), spec, about, table)


def _curves(compared: Comparison) -> Section:
    """Returns the curves of all runs, a plot per measure of training and of validation."""
    plots = []
    for kind, where in (("validation", "in validation"), ("train", "in training")):
        logged = [x.run.logged(kind) for x in compared.runs]
        logs = dict(zip(compared.names, logged, strict=True))
        for name, (_, _, about) in measures.MEASURES.items():
            # Only plots with points of every run.
            series = {run: curves.points(lines, name) for run, lines in logs.items()}
            if all(series.values()):
                title, is_log = f"{measures.title(name)} {where}", name in curves.LOGARITHMIC
                plots.append(curves.plot(title, series, about, logarithmic=is_log))
    return Section("Curves", plots)


def _lengths(compared: Comparison) -> Section:
    """Returns the scores of translations by the length of the source, as in the papers."""
    parts = []
    if compared.lengths:
        about = (
            f"Sentences by the {compared.unit} of their source, with 95 % intervals. A column "
            "compares runs on the same sentences; two columns are of different sentences."
        )
        plots = [by_length(compared, name) for name in compared.measures]
        parts = [about, *plots, *(length_table(compared, x) for x in compared.measures)]
    return Section("Scores by sentence length", parts)


def by_length(compared: Comparison, name: str) -> Plot:
    """Returns a plot of a score over the buckets of lengths, with a line per run."""
    buckets, scores = compared.lengths, {}
    for i, run in enumerate(compared.names):
        scores[run] = {x: bucket.measures[name].scores[i].interval for x, bucket in buckets.items()}
    counts = {x: bucket.count for x, bucket in buckets.items()}
    return lengths.plot(name_of(name), compared.unit, scores, counts)


def _lines(compared: Comparison) -> Section:
    """Returns the lines on which the runs differ most, with each run's output."""
    kind, shown = compared.kind, []
    # The column's name, such as 'reference' or 'label'; a language model's lines have none.
    reference_name = compared.runs[0].result["columns"].get("reference")
    for item in compared.items:
        scores = [f"{x} {kind.shown(y)}" for x, y in zip(compared.names, item.scores, strict=True)]
        rows = {f"line {item.number:,}": ", ".join(scores), **item.line}
        outputs = dict(zip(compared.names, item.outputs, strict=True))
        shown.append(sentences.item(rows, outputs, item.line.get(reference_name, "")))
    parts = [kind.about, sentences.markup(shown)] if shown else []
    return Section("Where the runs differ most", parts)
