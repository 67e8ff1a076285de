"""The page of a comparison: the sections of --mode=compare."""

from transformer.tools.compare import comparison_tables as tables
from transformer.tools.compare.comparison import Comparison
from transformer.tools.compare.kinds import kind_of
from transformer.tools.pages import curves, lengths, sentences
from transformer.tools.pages.measures import SCORES, TRAINED, in_digits, spelt
from transformer.tools.pages.page import Plot, Section, Table


def title(compared: Comparison) -> str:
    """Returns the title of the page: the runs, or the first and how many others."""
    first, *others = compared.names
    return " and ".join(compared.names) if len(others) == 1 else f"{first} and {len(others)} others"


def sections(compared: Comparison) -> list[Section]:
    """Returns the sections of a page in order, without those that do not apply."""
    parts = (_scores, _config, _curves, _lengths, _lines)
    return [section for make in parts if (section := make(compared))]


def _scores(compared: Comparison) -> Section:
    """Returns the scores, their intervals as plots, and how intervals and p-values are computed."""
    first = compared.runs[0].result
    about = (
        f"Test set {first['set']} (checksum {first['checksum'][:12]}). {tables.legend(compared)}"
    )
    methods = {f"p of {spelt(name)}": x.how for name, x in compared.measures.items()}
    return Section(
        "Scores",
        [
            *filter(None, [tables.scoring(compared)]),
            about,
            Table(*tables.score_table(compared)),
            *(_intervals(compared, name) for name in compared.measures),
            methods,
            Table(*tables.further_table(compared), "Further scores of the same evaluations"),
        ],
    )


def _intervals(compared: Comparison, name: str) -> Plot:
    """Returns a plot of a score: a point for each run, with its 95 % interval."""
    names, scores = compared.names, compared.measures[name].scores
    rows = [
        {"run": run, "score": x.interval.value, "low": x.interval.low, "high": x.interval.high}
        for run, x in zip(names, scores, strict=True)
    ]
    run = {"field": "run", "type": "nominal", "sort": None, "title": None}
    score = {"type": "quantitative", "scale": {"zero": False}, "title": None}
    colour = {"color": {"field": "run", "type": "nominal", "scale": {"domain": names}}}
    colour["color"]["legend"] = None
    spec = {
        "height": 32 * len(rows),
        "data": {"values": rows},
        "encoding": {"y": run, **colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": {"field": "low", **score}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "tooltip": True},
                "encoding": {"x": {"field": "score", **score}},
            },
        ],
    }
    digits = (in_digits(name, x.interval) for x in scores)
    words = (f"{run} {x}" for run, x in zip(names, digits, strict=True))
    table = Table(["run", "score", "low", "high"], [list(row.values()) for row in rows])
    about = "With 95 % intervals"
    about += f": {', '.join(words)}." if len(names) <= curves.MOST_IN_WORDS else "."
    return Plot(spelt(name), spec, about, table)


def _config(compared: Comparison) -> Section:
    """Returns a table of the keys on which the configs differ."""
    if not compared.config:
        return Section("Config", ["The configs are the same."])
    return Section("Config", ["What differs:", Table(*tables.config_table(compared))])


def _curves(compared: Comparison) -> Section | None:
    """Returns the curves of all runs, a plot for each measure of training and of validation."""
    plots = []
    for kind, where in (("validation", "in validation"), ("train", "in training")):
        for name, about in {**SCORES, **TRAINED}.items():
            lines = (run.run.of_kind(kind) for run in compared.runs)
            points = [curves.points(of_run, name) for of_run in lines]
            series = dict(zip(compared.names, points, strict=True))
            if all(series.values()):
                title, scale = curves.capitalised(spelt(name)), name in curves.LOGARITHMIC
                plots.append(curves.plot(f"{title} {where}", series, about, logarithmic=scale))
    return Section("Curves", plots) if plots else None


def _lengths(compared: Comparison) -> Section | None:
    """Returns the scores of translations by the length of the source, as in the papers."""
    if not compared.lengths:
        return None
    about = (
        f"Sentences by the {compared.unit} of their source, with 95 % intervals. A column compares "
        "runs on the same sentences; two columns are of different sentences."
    )
    names = list(compared.measures)
    return Section(
        "Scores by sentence length",
        [
            about,
            *(by_length(compared, name) for name in names),
            *(Table(*tables.length_table(compared, name)) for name in names),
        ],
    )


def by_length(compared: Comparison, name: str) -> Plot:
    """Returns a plot of a score over the buckets of lengths, a line for each run."""
    scores = {
        run: {bucket: x.measures[name].scores[i].interval for bucket, x in compared.lengths.items()}
        for i, run in enumerate(compared.names)
    }
    counts = {bucket: x.count for bucket, x in compared.lengths.items()}
    return lengths.plot(spelt(name), compared.unit, scores, counts)


def _lines(compared: Comparison) -> Section | None:
    """Returns the lines on which the runs differ most, with each run's output."""
    if not compared.items:
        return None
    kind, shown = kind_of(compared.runs[0]), []
    for item in compared.items:
        outputs = dict(zip(compared.names, item.outputs, strict=True))
        scores = (tables.score_of_line(compared, score) for score in item.scores)
        about = ", ".join(f"{name} {x}" for name, x in zip(compared.names, scores, strict=True))
        rows = {f"line {item.number:,}": about, **item.line}
        if kind.is_text:
            reference = item.line[compared.runs[0].result["columns"]["reference"]]
            shown.append(sentences.item(rows, outputs, reference))
        else:
            shown.append(sentences.item({**rows, **outputs}, {}, ""))
    text = f"{kind.about} {sentences.MARKED}" if kind.is_text else kind.about
    return Section("Where the runs differ most", [text, sentences.markup(shown)])
