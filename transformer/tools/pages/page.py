"""Makes an HTML page of sections: one file that needs no network, in light and dark, on any width.

    Section("Curves", ["One paragraph.", Plot(...), Plot(...), Table(...)])

A page is `html(title, sections)`, a section a title and its parts in reading order. A part is

    str       a paragraph of plain text, with `code` between backticks
    dict      labels and their texts, a line each
    Table     columns and rows of texts and numbers; numbers are aligned right
    Plot      a Vega-Lite specification with its data inside ({"data": {"values": [...]}}), what it
              shows in words, and the same numbers as a Table, for those who cannot see it. It is as
              wide as its column, in the colours of THEMES: leave out `width`, `$schema`, `config`
              and colours. Plots that follow one another share a grid; one alone is as wide as the
              page
    Markup    HTML that is neither, with its style and script: `escape` every text of a run in it.
              Its colours are the CSS variables of page.css, var(--ink) and so on. The style is
              global, so begin its selectors with a class of your own; the script is run once, in a
              scope of its own, however many Markups of a page have the same

Texts, titles and captions are escaped here. A Plot must have no NaN or infinity, which JSON lacks.
Scripts and data are embedded, and a content security policy forbids the page any network access.
`svg` makes a picture of a Plot for a document.
"""

import functools
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent  # page.css and page.js, which are embedded


class Table(NamedTuple):
    """Columns and rows of texts and numbers. With `folded`, which says what is in it, the table is
    shown on a click."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    folded: str = ""


class Plot(NamedTuple):
    """A Vega-Lite specification, what it shows in words, and the same numbers as a table."""

    title: str
    spec: dict
    description: str
    table: Table


class Markup(NamedTuple):
    """HTML whose texts are escaped already, and the CSS and JavaScript that it needs."""

    html: str
    style: str = ""
    script: str = ""


Part = str | dict[str, str] | Table | Plot | Markup


class Section(NamedTuple):
    """A title, and parts in reading order."""

    title: str
    parts: Sequence[Part]


def theme(ink: str, muted: str, line: str, colours: str, ramp: str) -> dict:
    """Returns a Vega-Lite config from the colours of text, of lines, and of what is plotted."""
    text = {"labelColor": muted, "titleColor": muted, "titleFontWeight": "normal"}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            **{**text, "gridColor": line, "domainColor": line, "tickColor": line},
            "labelSeparation": 6,
        },
        "legend": {**text, "title": None, "orient": "top"},
        "header": text,
        "title": {"color": ink, "anchor": "start"},
        "mark": {"color": colours.split()[0]},
        "rule": {"color": muted},
        "text": {"color": ink},
        "range": {
            "category": colours.split(),
            "ramp": {"scheme": ramp},
            "heatmap": {"scheme": ramp},
        },
    }


# The categories are Okabe and Ito's colours, which the colour-blind can tell apart; on dark, their
# lighter ones come first.
THEMES = {
    "light": theme(
        *("#1b1f24", "#59636e", "#e3e6ea"),
        "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9",
        "blues",
    ),
    "dark": theme(
        *("#e6e9ed", "#9aa4af", "#333a42"),
        "#56b4e9 #e69f00 #2fc79d #e39cc1 #f0e442 #ff8a4c",
        "darkblue",
    ),
}


def html(title: str, sections: Sequence[Section], about: str = "") -> str:
    """Returns a page as text; `about` is a line below its title."""
    parts = [part for section in sections for part in section.parts]
    plots = [part for part in parts if isinstance(part, Plot)]
    extras = [part for part in parts if isinstance(part, Markup)]
    specs = [{"width": "container", **plot.spec} for plot in plots]
    styles = [_file("page.css"), *(extra.style for extra in extras)]
    scripts = [*([_bundle(), _file("page.js")] if plots else []), *(e.script for e in extras)]
    links = (f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    ids = itertools.count()  # of plots, in the order of `specs`
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            *(f"<style>{style}</style>" for style in dict.fromkeys(styles) if style),
            f"</head>\n<body>\n<header><h1>{escape(title)}</h1><p>{escape(about)}</p>",
            f'<nav aria-label="Sections">{"".join(links)}</nav></header>\n<main>',
            *(_section(f"s{i}", section, ids) for i, section in enumerate(sections)),
            "</main>\n<noscript>Plots need JavaScript; their numbers are in the tables.</noscript>",
            _json_element("plots", specs),
            _json_element("themes", THEMES),
            *(
                f"<script>(() => {{{code}\n}})()</script>"
                for code in dict.fromkeys(scripts)
                if code
            ),
            "</body>\n</html>\n",
        ]
    )


POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def svg(plot: Plot, *, width: int = 480, dark: bool = False) -> str:
    """Returns a picture of a plot."""
    import vl_convert  # on use, because it is large

    config = THEMES["dark" if dark else "light"]
    spec = {"width": width, **plot.spec, "title": plot.title, "config": config}
    return vl_convert.vegalite_to_svg(spec)


@functools.cache
def _bundle() -> str:
    """Returns Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    return vl_convert.javascript_bundle()


def _file(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _json_element(name: str, value: object) -> str:
    """Returns a script element with JSON, in which no text can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _section(name: str, section: Section, ids: Iterator[int]) -> str:
    bodies = []
    for kind, parts in itertools.groupby(section.parts, key=type):
        if kind is Plot:
            bodies.append(f'<div class="plots">{"".join(_plot(p, next(ids)) for p in parts)}</div>')
        else:
            bodies += map(_part, parts)
    return f'<section id="{name}"><h2>{escape(section.title)}</h2>\n{"".join(bodies)}</section>'


def _part(part: Part) -> str:
    if isinstance(part, dict):
        rows = (f"<dt>{escape(k)}</dt><dd>{_prose(x)}</dd>" for k, x in part.items())
        return f'<dl class="facts">{"".join(rows)}</dl>\n'
    if isinstance(part, Table):
        table = _table(part)
        folded = f"<details><summary>{escape(part.folded)}</summary>{table}</details>\n"
        return folded if part.folded else table
    return part.html if isinstance(part, Markup) else f'<p dir="auto">{_prose(part)}</p>\n'


def _prose(text: str) -> str:
    """Escapes a text, and makes what is between two backticks code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _plot(plot: Plot, number: int) -> str:
    return (
        f"<figure><figcaption><b>{escape(plot.title)}</b> {escape(plot.description)}</figcaption>"
        f'<div class="plot" id="plot{number}" role="img" aria-label="{escape(plot.description)}">'
        f"</div>{_part(plot.table._replace(folded='as a table'))}</figure>\n"
    )


def _table(table: Table) -> str:
    """Returns a table in a box of its own, which scrolls sideways if the table is too wide."""
    numeric = [
        all(isinstance(row[i], int | float) for row in table.rows)
        for i in range(len(table.columns))
    ]
    classes = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(
        f'<th scope="col"{c}>{escape(x)}</th>' for c, x in zip(classes, table.columns, strict=True)
    )
    columns = [_cells(column) for column in zip(*table.rows, strict=True)]
    rows = (
        "".join(f'<td dir="auto"{c}>{x}</td>' for c, x in zip(classes, row, strict=True))
        for row in zip(*columns, strict=True)
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="table" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def number(value: float) -> str:
    """Formats a number for people: 12,345, 0.1235, 1.2e-05."""
    is_small = isinstance(value, float) and abs(value) < 10_000
    return f"{value:.4g}" if is_small else f"{value:,.0f}"


def _cells(column: Sequence[object]) -> list[str]:
    """Formats a column; shares, numbers from 0 to 1, have four decimals each."""
    floats = [value for value in column if isinstance(value, float)]
    are_shares = all(value == 0 or 1e-3 <= value <= 1 for value in floats)

    def cell(value: object) -> str:
        if are_shares and isinstance(value, float):
            return f"{value:.4f}"
        return number(value) if isinstance(value, int | float) else escape(str(value))

    return list(map(cell, column))
