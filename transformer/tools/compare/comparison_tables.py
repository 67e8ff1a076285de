"""A comparison as tables of text, for a terminal and a page."""

from transformer.tools.compare import comparison
from transformer.tools.compare.comparison import Comparison
from transformer.tools.compare.kinds import kind_of
from transformer.tools.pages import settings
from transformer.tools.pages.measures import in_digits, spelt

Rows = tuple[list[str], list[list[str]]]  # a table's columns and its rows


def scoring(compared: Comparison) -> str:
    """Says which runs were scored with other weights or another decoding; "" if none were."""
    differing = comparison.scoring(compared).items()
    keys = "; ".join(f"{key} {', '.join(map(setting, values))}" for key, values in differing)
    return keys and (
        f"The runs were not scored alike ({keys}): what differs may be due to this, not "
        "to the models."
    )


def legend(compared: Comparison) -> str:
    """Says what the interval and the p-values of `score_table` are."""
    if not compared.measures:
        return "The evaluations kept no outputs of single items: no intervals, no p-values."
    first = compared.names[0]
    return f"In brackets is the 95 % interval. p is of the difference from {first}."


def score_table(compared: Comparison) -> Rows:
    """Returns a row for each run: the scores that have intervals, parameters, steps, weights."""
    columns, rows = ["run"], [[name] for name in compared.names]
    for name, measure in compared.measures.items():
        columns += [spelt(name), "p"]
        for i, (row, score) in enumerate(zip(rows, measure.scores, strict=True)):
            p = f"{score.p:.3f}" if score.p >= 0.001 else "<0.001"
            row += [in_digits(name, score.interval), p if i else "-"]
    columns += ["parameters", "step", "weights"]
    for row, run, parameters in zip(rows, compared.runs, compared.parameters, strict=True):
        steps = ", ".join(map(str, run.result["steps"]))
        row += [f"{parameters:,}", steps, run.result["weights"]]
    return columns, rows


def further_table(compared: Comparison) -> Rows:
    """Returns a row for each run: the scores without intervals."""
    shown = lambda x: "-" if x is None else f"{x:.4g}"
    rows = [
        [name, *(shown(numbers[i]) for numbers in compared.scores.values())]
        for i, name in enumerate(compared.names)
    ]
    return ["run", *map(spelt, compared.scores)], rows


def length_table(compared: Comparison, name: str) -> Rows:
    """Returns a row for each run, a column for each bucket of lengths."""
    buckets = compared.lengths
    rows = [["sentences", *(f"{bucket.count:,}" for bucket in buckets.values())]]
    for i, run in enumerate(compared.names):
        scores = (bucket.measures[name].scores[i] for bucket in buckets.values())
        rows.append([run, *(in_digits(name, score.interval) for score in scores)])
    return [f"{spelt(name)} by {compared.unit}", *buckets], rows


def config_table(compared: Comparison) -> Rows:
    """Returns a row for each key that differs, with a column for each run."""
    columns = ["config", *compared.names]
    return columns, [[key, *map(setting, row)] for key, row in compared.config.items()]


def score_of_line(compared: Comparison, score: float) -> str:
    """Returns the score of an Item as text."""
    return kind_of(compared.runs[0]).shown(score)


def setting(value: object) -> str:
    """Returns a value of a config as text; - for a key that a run does not have."""
    return "-" if value is None else settings.show(value)
