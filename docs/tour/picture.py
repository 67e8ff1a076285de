"""The tour's pictures: a Vega-Lite chart as an SVG that carries its own specification."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer.tools.pages import charts

Chart = dict[str, Any]
THEME = charts.THEMES["light"]
BLUE, ORANGE, GREEN, *_ = charts.CATEGORIES["light"]
GREY = charts.INKS["dark"][1]  # pale
LEGEND = {name: x for name, x in THEME["legend"].items() if name not in ("title", "orient")}
SIZES = {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 300}
# The reader's machine draws the letters: Hangul by the first of these that it has.
FONTS = "Noto Sans KR, Noto Sans CJK KR, Apple SD Gothic Neo, Malgun Gothic, sans-serif"
STYLE = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "background": "white",  # so that it can be read on a light and on a dark page
    # On the right room for letters that are wider than those that were measured, as in a legend.
    "padding": {"left": 12, "top": 12, "right": 36, "bottom": 12},
    "config": {
        **THEME,
        "font": FONTS,
        "axis": {**THEME["axis"], **SIZES, "grid": False},
        "legend": {**LEGEND, **SIZES},
        "title": {**THEME["title"], "fontSize": 13},
        "header": {**THEME["header"], "labelFontSize": 13, "title": None},
    },
}


def save(chart: Chart, file: Path, draw: Callable[[Chart], str] | None = None) -> None:
    """Draws a chart; the SVG's <metadata> is its specification, data included.

    With `draw`, which returns an SVG, the chart need not be one of Vega-Lite.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(svg(chart, draw).rstrip() + "\n", "utf-8")


def svg(chart: Chart, draw: Callable[[Chart], str] | None = None) -> str:
    """Returns the SVG that `save` writes."""
    spec = rounded(chart) if draw else {**STYLE, **rounded(chart)}
    content = html.escape(json.dumps(spec, ensure_ascii=False), quote=False)
    metadata = lambda tag: f"{tag[0]}<metadata>{content}</metadata>"
    return re.sub(r"<svg[^>]*>", metadata, (draw or charts.svg)(spec), count=1)


def specification(file: Path) -> Chart:
    """Returns the specification of a chart that `save` drew."""
    content = re.search(r"<metadata>(.*?)</metadata>", file.read_text("utf-8"), re.DOTALL)
    return json.loads(html.unescape(content[1]))


def rounded(value: Any) -> Any:
    """Returns a chart whose numbers have four digits: what a picture shows, and no more."""
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(x) for x in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def heatmap(
    rows: list[dict], x: str, y: str, value: str, *, width: int, height: int, **options: Any
) -> Chart:
    """Returns a chart of squares, stronger for higher values, from 0 to 1, which are in each."""
    chart = charts.cells(rows, x, y, value, number=value, text=".2f")
    squares, numbers = chart["layer"]
    squares["mark"]["stroke"] = THEME["axis"]["gridColor"]
    squares["encoding"]["fillOpacity"]["scale"]["range"] = [0.03, 0.7]  # seen on white alone
    numbers["transform"] = [{"filter": f"datum['{value}'] >= 0.005"}]
    # Room for Hangul, which is wider than what was measured where there is no such font.
    place = chart["encoding"]["y"]  # its axis is that of x, too
    place["axis"] = {**place["axis"], "minExtent": 60, "titlePadding": 14}
    return {**chart, "width": width, "height": height, **options}
