"""The tour's pictures: a Vega-Lite chart as an SVG that carries its own specification."""

import html
import json
import re
from pathlib import Path
from typing import Any

Chart = dict[str, Any]
# The reader's machine draws the letters: Hangul by the first of these that it has.
FONTS = "Noto Sans KR, Noto Sans CJK KR, Apple SD Gothic Neo, Malgun Gothic, sans-serif"
STYLE = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "background": "white",  # so that it can be read on a light and on a dark page
    # On the right room for letters that are wider than those that were measured, as in a legend.
    "padding": {"left": 12, "top": 12, "right": 36, "bottom": 12},
    "config": {
        "font": FONTS,
        "view": {"stroke": None},
        "axis": {"grid": False, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 300},
        "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 300},
        "title": {"fontSize": 13, "anchor": "start"},
        "header": {"labelFontSize": 13, "title": None},
        "range": {"category": ["#4269d0", "#ef6f3c", "#3ca951", "#a463f2", "#97a1ad"]},
    },
}


def save(chart: Chart, file: Path) -> None:
    """Draws a chart; the SVG's <metadata> is its specification, data included."""
    import vl_convert

    spec = {**STYLE, **rounded(chart)}
    content = html.escape(json.dumps(spec, ensure_ascii=False), quote=False)
    svg = vl_convert.vegalite_to_svg(spec)
    # A label for each mark would be most of a file; pages show a picture with a text of its own.
    svg = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", svg)
    svg = re.sub(r"(<svg[^>]*>)", lambda m: f"{m[1]}<metadata>{content}</metadata>", svg, count=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(svg + "\n", "utf-8")


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
    """Returns a chart of squares, darker for higher values from 0 to 1, with the value in each."""
    position = {"type": "nominal", "sort": None}
    encoding = {
        "x": {"field": x, **position, "axis": {"labelAngle": 0, "title": x}},
        # Room for Hangul, which is wider than what was measured where there is no such font.
        "y": {"field": y, **position, "axis": {"title": y, "minExtent": 60, "titlePadding": 14}},
    }
    scale = {"range": ["#f7fbff", "#6baed6", "#08519c"], "domain": [0, 1], "interpolate": "rgb"}
    ink = {"condition": {"test": f"datum['{value}'] > 0.6", "value": "white"}, "value": "#333"}
    number = {
        "mark": {"type": "text", "fontSize": 11},
        "transform": [{"filter": f"datum['{value}'] >= 0.005"}],
        "encoding": {"text": {"field": value, "format": ".2f"}, "color": ink},
    }
    squares = {
        "mark": {"type": "rect", "stroke": "#ddd"},
        "encoding": {"color": {"field": value, "type": "quantitative", "scale": scale}},
    }
    squares["encoding"]["color"]["legend"] = None
    return {
        "data": {"values": rows},
        "encoding": encoding,
        "layer": [squares, number],
        "width": width,
        "height": height,
        **options,
    }
