"""BLEU and chrF by the length of the source, of one run or several."""

import bisect
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from transformer.tools.pages import measures
from transformer.tools.pages.curves import LEGEND, MOST_IN_WORDS
from transformer.tools.pages.evaluated import tokenizer
from transformer.tools.pages.measures import Interval
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.pages.run import Run

SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95)  # of all sentences, those shorter than a bucket's
FEWEST = 25  # sentences of a bucket, so that its score means something


def section(run: Run) -> Section | None:
    """Returns BLEU and chrF of the newest test set by the length of its sources."""
    sides = run.evaluations and run.evaluations[-1].named("input", "output", "reference")
    if not sides or "bleu" not in run.evaluations[-1].result:
        return None
    unit, lengths = length_of(sides[0])
    rows = buckets(lengths, edges(lengths))
    plots = []
    metrics = {"BLEU": BLEU(tokenize=tokenizer(run.evaluations[-1].result)), "chrF": CHRF()}
    for title, metric in metrics.items():
        scores = {
            name: measures.bootstrap(metric, *([side[i] for i in lines] for side in sides[1:]))
            for name, lines in rows.items()
        }
        counts = {name: len(lines) for name, lines in rows.items()}
        plots.append(plot(title, unit, {"": scores}, counts))
    return Section("By length of the source", [ABOUT, *plots])


ABOUT = (
    "A model without attention gets worse as sentences get longer (Bahdanau et al. 2015, figure "
    "2). Vertical lines, from low to high, are 95 % intervals, by bootstrap."
)


def length_of(sources: Sequence[str]) -> tuple[str, list[int]]:
    """Returns the unit of length, and the length of each source in this unit.

    The unit is 'words', or 'characters' if most sources are a single word, as in a script without
    spaces.
    """
    words = [len(source.split()) for source in sources]
    return ("words", words) if np.median(words) > 1 else ("characters", list(map(len, sources)))


def edges(lengths: Sequence[int]) -> list[int]:
    """Returns the smallest length of each bucket but the first.

    There are narrow buckets for the shortest and the longest sentences, where models differ, and
    fewer buckets if there are few sentences.
    """
    at, starts = np.array(lengths), [min(lengths)]
    for edge in np.quantile(at, SHARES, method="higher").tolist():
        # A mask of the bucket that would end at this edge, and of all that is longer.
        inside, above = (at >= starts[-1]) & (at < edge), at >= edge
        if min(inside.sum(), above.sum()) >= FEWEST:
            starts.append(edge)
    return starts[1:] or [max(lengths) + 1]


def buckets(lengths: Sequence[int], edges: Sequence[int]) -> dict[str, list[int]]:
    """Returns {bucket: the indices of its lines}, without empty buckets, and with 'all'.

    Edges 9, 11, 12 give buckets "≤8", "9–10", "11" and "≥12".
    """
    inner = (
        f"{least}–{above - 1}" if above - least > 1 else f"{least}"
        for least, above in itertools.pairwise(edges)
    )
    names = [f"≤{edges[0] - 1}", *inner, f"≥{edges[-1]}"]
    rows = {name: [] for name in names}
    for line, length in enumerate(lengths):
        # An edge is its bucket's smallest length: with edges 9 11 12, 8 is in bucket 0 and 9 in 1.
        rows[names[bisect.bisect_right(edges, length)]].append(line)
    return {name: lines for name, lines in rows.items() if lines} | {"all": [*range(len(lengths))]}


def plot(
    title: str,
    unit: str,
    scores: Mapping[str, Mapping[str, Interval]],
    counts: Mapping[str, int],
) -> Plot:
    """Returns a plot of a score over the buckets, a line for each run.

    `scores` are {run: {bucket: score}}, `counts` {bucket: sentences}, both with the bucket 'all'.
    """
    names = [name for name in counts if name != "all"]
    values = [
        {
            **{"length": name, "run": run, "sentences": counts[name]},
            **dict(zip(("score", "low", "high"), of_run[name], strict=True)),
        }
        for run, of_run in scores.items()
        for name in names
    ]
    colour = {"field": "run", "type": "nominal", "scale": {"domain": [*scores]}}
    encoding = {
        "x": {
            **{"field": "length", "type": "ordinal", "sort": names, "axis": {"labelAngle": 0}},
            **{"title": f"{unit} of the source", "scale": {"type": "band", "padding": 0.6}},
        },
        "xOffset": {"field": "run", "sort": [*scores]},  # so that intervals do not hide each other
        "color": {**colour, "legend": LEGEND if len(scores) > 1 else None},
    }
    y = {"type": "quantitative", "title": None, "scale": {"zero": False}}
    mark = {"type": "line", "point": {"size": 50}, "tooltip": {"content": "data"}}
    layers = [
        {"mark": "rule", "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}}},
        {"mark": mark, "encoding": {"y": {"field": "score", **y}}},
    ]
    ends = (
        f"{run}{': ' if len(scores) > 1 else ''}{of_run[names[0]].value:.1f} for the shortest to "
        f"{of_run[names[-1]].value:.1f} for the longest sources, {of_run['all'].value:.1f} for all"
        for run, of_run in scores.items()
    )
    columns = [x for run in scores for x in (run or title, "low", "high")]
    rows = [
        [name, count, *(x for of_run in scores.values() for x in of_run[name])]
        for name, count in counts.items()
    ]
    return Plot(
        title,
        {"height": 200, "data": {"values": values}, "encoding": encoding, "layer": layers},
        f"{'; '.join(ends)}." if len(scores) <= MOST_IN_WORDS else "",
        Table([unit, "sentences", *columns], rows),
    )
