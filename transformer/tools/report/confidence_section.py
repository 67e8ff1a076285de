"""The section on confidence: predicted shares of good lines beside those that were measured."""

import numpy as np

from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.pages import measures
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.pages.run import Run

ABOUT = (
    "A point is a tenth of the lines that the confidence was measured on: the share of them that "
    "is good, with its 95 % interval, over the mean of what was predicted. On the dashed line a "
    "confidence of 0.7 is right for 7 lines in 10."
)


def section(run: Run) -> Section | None:
    """Returns the reliability diagram and the thresholds; None for a run that is not calibrated."""
    file = run.workdir / "confidence.json"
    if not file.exists():
        return None
    values = paths.read_json_object(file)
    try:
        bins, thresholds = (np.array(values[x], float) for x in ("bins", "thresholds"))
        if not (np.isfinite(bins).all() and np.isfinite(thresholds).all() and bins[:, 2].min() > 0):
            raise ValueError("a number that is not finite, or a bin without lines")
        bins = bins.tolist()
        rows = [[mean, *measures.wilson(int(good), int(n)), int(n)] for mean, good, n in bins]
        flags = thresholds.reshape(-1, 4).tolist()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"damaged: {file} is not of --mode=calibrate: {error}") from error
    table = Table(["predicted", "good", "low", "high", "lines"], rows)
    names = ["flagged below", "share of lines", "precision", "recall"]
    about = (
        "Precision: of the lines flagged, the share not good. Recall: of those, the share flagged."
    )
    summary = str(values.get("summary", ""))
    diagram = Plot("Reliability", _spec(table), ABOUT, table)
    return Section("Confidence", [summary, diagram, Table(names, flags, about)])


def _spec(table: Table) -> dict:
    """Returns the reliability diagram of a table of bins."""
    values = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    axis = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"tickCount": 5}}
    x, y = {"field": "predicted", **axis}, {"field": "good", **axis, "title": "good"}
    both = {"x": x, "y": y}
    interval = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    ends = {"values": [{"predicted": 0, "good": 0}, {"predicted": 1, "good": 1}]}
    line = {"type": "line", "strokeDash": [4, 4]}
    point = {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}}
    layers = [
        {"data": ends, "mark": line, "encoding": both},
        {"mark": "rule", "encoding": interval},
        {"mark": point, "encoding": both},
    ]
    return {"height": 300, "data": {"values": values}, "layer": layers}
