"""Formats a comparison as tables of text, for a terminal and a page."""

from transformer.tools.compare import comparison
from transformer.tools.compare.comparison import Comparison
from transformer.tools.pages import settings
from transformer.tools.pages.measures import in_digits, name_of
from transformer.tools.pages.page import Table


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
        lines.append("The evaluations kept no outputs to score: no intervals, no p-values.")
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
