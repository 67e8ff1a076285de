"""Plots BLEU and chrF by the length of the source, for one run or several."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from transformer.tools.pages import measures
from transformer.tools.pages.curves import LEGEND, MAX_IN_WORDS
from transformer.tools.pages.measures import Interval
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.pages.run import Run

# Quantiles of the lengths at the edges of buckets: a tenth of the sentences is shorter than the
# first edge.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95)
MIN_SENTENCES = 25  # per bucket; scores of fewer are noise
ABOUT = (
    "A model without attention gets worse as sentences get longer (Bahdanau et al. 2015, figure "
    "2). Vertical lines, from low to high, are 95 % intervals, by bootstrap."
)


def section(run: Run) -> Section | None:
    """Returns BLEU and chrF of the newest test set by the length of its sources.

    None without BLEU in the result, or without saved lines.
    """
    if not run.evaluations or "bleu" not in run.evaluations[-1].result:
        return None
    newest = run.evaluations[-1]
    if not (sides := newest.columns("input", "output", *measures.reference_roles(newest.result))):
        return None
    sources, *texts = sides
    unit, rows = buckets(sources)
    counts = {name: len(lines) for name, lines in rows.items()}
    plots = []
    for key, metric in measures.metrics(newest.result).items():
        scores = {}
        for name, lines in rows.items():
            output, *references = ([side[i] for i in lines] for side in texts)
            scores[name] = measures.bootstrap(metric, output, references)
        plots.append(plot(measures.name_of(key), unit, {"": scores}, counts))
    return Section("By length of the source", [ABOUT, *plots])


def buckets(sources: Sequence[str]) -> tuple[str, dict[str, list[int]]]:
    """Returns the unit of length and {bucket: indices of its lines}; the bucket 'all' has all.

    The unit is 'words', or 'characters' if most sources are a single word, as in a script without
    spaces. No bucket is empty.
    """
    unit, lengths = "words", [len(source.split()) for source in sources]
    if np.median(lengths) <= 1:
        unit, lengths = "characters", [len(source) for source in sources]
    starts = edges(lengths)
    # An edge is the smallest length of a bucket: with edges 9 11 12, 8 is in bucket 0 and 9 in 1.
    bucket_of_line = np.searchsorted(starts, lengths, side="right")
    rows = {x: np.flatnonzero(bucket_of_line == i) for i, x in enumerate(bucket_names(starts))}
    rows["all"] = np.arange(len(lengths))
    return unit, {name: lines.tolist() for name, lines in rows.items() if len(lines)}


def edges(lengths: Sequence[int]) -> list[int]:
    """Returns the smallest length of each bucket except the first.

    Buckets are narrow for the shortest and the longest sentences, where models differ, and fewer
    for few sentences.
    """
    # An edge is left out if the bucket that it ends, or the rest, would be too small.
    starts = [min(lengths)]
    for edge in np.quantile(lengths, SHARES, method="higher").tolist():
        # Masks of the bucket that would end at this edge, and of the rest.
        above = np.greater_equal(lengths, edge)
        inside = np.greater_equal(lengths, starts[-1]) & ~above
        if min(inside.sum(), above.sum()) >= MIN_SENTENCES:
            starts.append(edge)
    # Without edges, one bucket has all lengths below the maximum plus 1.
    return starts[1:] or [max(lengths) + 1]


def bucket_names(edges: Sequence[int]) -> list[str]:
    """Returns the names of buckets: edges 9, 11, 12 give "≤8", "9–10", "11" and "≥12"."""
    named = lambda first, last: f"{first}" if first == last else f"{first}–{last}"
    inner = [named(first, after - 1) for first, after in itertools.pairwise(edges)]
    return [f"≤{edges[0] - 1}", *inner, f"≥{edges[-1]}"]


def plot(
    title: str,
    unit: str,
    scores: Mapping[str, Mapping[str, Interval]],
    counts: Mapping[str, int],
) -> Plot:
    """Returns a plot of a score over the buckets, with a line per run.

    `scores` is {run: {bucket: score}}, `counts` is {bucket: sentences}; both have the bucket 'all'.
    """
    names = [name for name in counts if name != "all"]
    values = []
    for run, intervals in scores.items():
        for name in names:
            row = {"length": name, "run": run, "sentences": counts[name]}
            score, low, high = intervals[name]
            values.append({**row, "score": score, "low": low, "high": high})
    colour = {"field": "run", "type": "nominal", "scale": {"domain": [*scores]}}
    axis = {"title": f"{unit} of the source", "axis": {"labelAngle": 0}}
    axis["scale"] = {"type": "band", "padding": 0.6}
    encoding = {
        "x": {"field": "length", "type": "ordinal", "sort": names, **axis},
        "xOffset": {"field": "run", "sort": [*scores]},  # so that intervals do not overlap
        "color": {**colour, "legend": LEGEND if len(scores) > 1 else None},
    }
    y = {"type": "quantitative", "title": None, "scale": {"zero": False}}
    mark = {"type": "line", "point": {"size": 50}, "tooltip": {"content": "data"}}
    layers = [
        {"mark": "rule", "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}}},
        {"mark": mark, "encoding": {"y": {"field": "score", **y}}},
    ]
    spec = {"height": 200, "data": {"values": values}, "encoding": encoding, "layer": layers}
    columns, ends = [unit, "sentences"], []
    for run, intervals in scores.items():
        columns += [run or title, "low", "high"]
        short, long, every = (intervals[x].value for x in (names[0], names[-1], "all"))
        words = f"{short:.1f} for the shortest to {long:.1f} for the longest sources"
        ends.append(f"{run}: {words}, {every:.1f} for all".removeprefix(": "))
    about = f"{'; '.join(ends)}." if len(ends) <= MAX_IN_WORDS else ""
    rows = []
    for name, count in counts.items():
        rows.append([name, count, *itertools.chain(*(x[name] for x in scores.values()))])
    return Plot(title, spec, about, Table(columns, rows))
