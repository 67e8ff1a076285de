"""The page of a sweep."""

import math
import shlex
from collections.abc import Sequence

from transformer.tools.pages import settings
from transformer.tools.pages.measures import in_digits, title
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.sweep import sweep_tables as tables
from transformer.tools.sweep.sweep_tables import Summary


def sections(summaries: Sequence[Summary], best_by: str, best_is: str) -> list[Section]:
    """Returns the sections of the page in order, without those that do not apply."""
    about = tables.about(summaries, best_by, best_is)
    table, further = (f(summaries, best_by) for f in (tables.score_table, tables.further_table))
    rows = []
    for row, _, _ in summaries:
        keys = [f"{key}={settings.show(value)}" for key, value in row.overrides.items()]
        rows.append([row.name, row.config, ", ".join(keys) or "-"])
    command = shlex.join(["python", "launch.py", *summaries[0].row.runs[0].arguments])
    failed = {x.run.name: x.failure for row in summaries for x in row.outcomes if x.failure}
    shown = [
        Section("Scores", [*about, table, *_plot(summaries, best_by), further]),
        Section(
            "Rows", [Table(["row", "config", "its keys"], rows), f"The first run: `{command}`"]
        ),
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
