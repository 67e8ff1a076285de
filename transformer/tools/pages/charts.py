"""Vega-Lite charts: the colours of a page, still pictures, and the scripts that draw charts.

A chart is a specification, a plain dict with its data inside ({"data": {"values": [...]}}), without
colours: `THEMES` has a Vega-Lite config for light and another for dark.
"""

import functools
import re
from collections.abc import Sequence

Chart = dict

# Inks are for text, muted text and lines. Categories are Okabe and Ito's colours for colour-blind
# readers; on dark, the lighter come first. page.css has them as VARIABLES.
INKS = {"light": ("#1b1f24", "#59636e", "#e3e6ea"), "dark": ("#e6e9ed", "#9aa4af", "#333a42")}
CATEGORIES = {
    "light": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"],
    "dark": ["#56b4e9", "#e69f00", "#2fc79d", "#e39cc1", "#f0e442", "#ff8a4c"],
}
VARIABLES = dict(zip(INKS["light"], ("ink", "muted", "line"), strict=True))
VARIABLES |= {colour: f"category-{i}" for i, colour in enumerate(CATEGORIES["light"], start=1)}
# Attributes to remove: the labels of all marks would be most of a picture's size.
LABELS = re.compile(r' (aria-[a-z]+|role)="[^"]*"')


def theme(name: str, ramp: str) -> dict:
    """Returns a Vega-Lite config: the colours of text, lines and marks."""
    ink, muted, line = INKS[name]
    text = {"labelColor": muted, "titleColor": muted, "titleFontWeight": "normal"}
    axis = {"gridColor": line, "domainColor": line, "tickColor": line}
    scheme = {"scheme": ramp}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**text, **axis, "labelSeparation": 6},
        "legend": {**text, "title": None, "orient": "top"},
        "header": text,
        "title": {"color": ink, "anchor": "start"},
        "mark": {"color": CATEGORIES[name][0]},
        "rule": {"color": muted},
        "text": {"color": ink},
        "range": {"category": CATEGORIES[name], "ramp": scheme, "heatmap": scheme},
    }


THEMES = {"light": theme("light", "blues"), "dark": theme("dark", "darkblue")}


def cells(
    rows: Sequence[dict], x: str, y: str, share: str, *, number: str = "", text: str = ""
) -> Chart:
    """Returns a chart of squares whose opacity grows with the field `share`, from 0 to 1.

    `number` names the field of the text in each square, `text` its format. Opacity, instead of a
    scale of colours, keeps the numbers readable in light and in dark.
    """
    shade = {"field": share, "type": "quantitative", "legend": None}
    shade["scale"] = {"domain": [0, 1], "range": [0.03, 0.5]}
    mark = {"type": "rect", "tooltip": {"content": "data"}}
    layers = [{"mark": mark, "encoding": {"fillOpacity": shade}}]
    if number:
        shown = {"field": number, "format": text, "type": "quantitative"}
        layers.append({"mark": "text", "encoding": {"text": shown}})
    axis = {"labelAngle": 0, "grid": False, "labelOverlap": True}
    place = {"type": "nominal", "sort": None, "axis": axis}
    encoding = {"x": {"field": x, **place}, "y": {"field": y, **place}}
    return {"data": {"values": list(rows)}, "encoding": encoding, "layer": layers}


def heat_map(rows: Sequence[dict], x: str, y: str) -> Chart:
    """Returns a chart of rows {x: ..., y: ..., 'value': ...}, whose values are from -1 to 1."""
    # A diverging scheme, with 0 in the neutral middle.
    colour = {"field": "value", "type": "quantitative", "legend": {"gradientLength": 120}}
    colour["scale"] = {"domain": [-1, 1], "scheme": "blueorange", "reverse": True}
    axis = {"labelOverlap": True, "ticks": False, "domain": False}
    place = {"type": "ordinal", "axis": axis, "sort": None}
    return {
        "data": {"values": list(rows)},
        "height": 260,
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {"x": {"field": x, **place}, "y": {"field": y, **place}, "color": colour},
    }


def svg(chart: Chart, *, dark: bool = False) -> str:
    """Returns a chart as SVG for a document."""
    import vl_convert  # on use, because it is large

    config = THEMES["dark" if dark else "light"]
    return LABELS.sub("", vl_convert.vegalite_to_svg({"config": config, **chart}))


def still(chart: Chart, *, width: int, prefix: str) -> str:
    """Returns a chart as SVG for a page, with the page's CSS variables as colours.

    Ids begin with `prefix`, because they must be unique in the page.
    """

    def variable(colour: re.Match) -> str:
        return f"var(--{VARIABLES[colour[0]]})" if colour[0] in VARIABLES else colour[0]

    # Within tags only, because texts may resemble ids or colours.
    def changed(tag: re.Match) -> str:
        # Definition and use of an id: id="clip1", url(#clip1).
        named = re.sub(r'(\bid="|url\(#)', rf"\g<1>{prefix}-", tag[0])
        return re.sub("#[0-9a-f]{6}", variable, named)

    return re.sub("<[^>]*>", changed, svg({"width": width, **chart}))


@functools.cache
def program() -> str:
    """Returns Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    return vl_convert.javascript_bundle()
