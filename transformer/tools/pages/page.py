"""Makes an HTML page of sections: one file that needs no network, in light and dark, on any width.

    Section("Curves", ["One paragraph.", Plot(...), Plot(...), Table(...)])

A page is `html(title, sections)`, a section a title and its parts in reading order. A part is

    str       a paragraph of plain text, with `code` between backticks
    dict      labels and their texts, a line each
    Table     columns and rows of texts and numbers; numbers are aligned right
    Plot      a Vega-Lite specification with its data inside ({"data": {"values": [...]}}), what it
              shows in words, and the same numbers as a Table, for those who cannot see it. It is as
              wide as its column, in the colours of the page: leave out `width`, `$schema`, `config`
              and colours. Plots that follow one another share a grid; one alone is as wide as the
              page. A picture of it is there for print and for readers without scripts
    Markup    HTML that is neither, with its style and script. `markup(name, ...)` makes it of a
              template, which escapes all texts. Its colours are the CSS variables of page.css,
              var(--ink) and so on. The style is global, so begin its selectors with a class of your
              own; the script is run once, in a scope of its own, however many Markups of a page
              have the same

page.html is the template of a page. Texts, titles and captions are escaped there. A Plot must have
no NaN or infinity, which JSON lacks. Scripts and data are embedded, and a content security policy
forbids the page any network access.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2

from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.pages import charts

TOOLS = Path(__file__).parents[1]  # templates, styles and scripts are named from here


def check_writable(file: Path, key: str) -> None:
    """Raises UserError, which names `key`, if a file cannot be written where it is wanted."""
    if paths.in_bucket(file):
        return
    if file.is_dir():
        raise UserError(f"{key}: {file} is a folder, expected a file")
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if error := paths.try_write(folder):
        raise UserError(f"{key}: cannot write in {folder}: {error.strerror or error}")


class Table(NamedTuple):
    """Columns and rows of texts and numbers.

    `folded` is a label, such as 'All 120 keys': with it, the table is shown on a click.
    """

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


def html(title: str, sections: Sequence[Section], about: str = "") -> str:
    """Returns a page as text; `about` is a line below its title."""
    parts = [part for section in sections for part in section.parts]
    plots = [part for part in parts if isinstance(part, Plot)]
    extras = [part for part in parts if isinstance(part, Markup)]
    styles = [read("pages/page.css"), *(extra.style for extra in extras)]
    scripts = [charts.program(), read("pages/page.js")] if plots else []
    scripts += [extra.script for extra in extras]
    return fill(
        "pages/page.html",
        title=title,
        about=about,
        styles=filter(None, dict.fromkeys(styles)),
        scripts=filter(None, dict.fromkeys(scripts)),
        sections=[(section.title, _groups(section)) for section in sections],
        next_number=itertools.count().__next__,  # of plots, in the order of `specs`
        specs=[{"width": "container", **plot.spec} for plot in plots],
        themes=charts.THEMES,
    )


def markup(name: str, **values: object) -> Markup:
    """Returns what the template NAME.html makes of `values`, with NAME.css and NAME.js if there."""
    return Markup(fill(f"{name}.html", **values), read(f"{name}.css"), read(f"{name}.js"))


def fill(name: str, **values: object) -> str:
    """Returns what a template makes of `values`, whose texts are escaped."""
    return _templates().get_template(name).render(values)


@functools.cache
def read(name: str) -> str:
    """Returns a style or a script; "" if there is none."""
    file = TOOLS / name
    return file.read_text("utf-8") if file.exists() else ""


@functools.cache
def _templates() -> jinja2.Environment:
    """Returns jinja2's environment, which escapes all texts, and fails if a value is missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TOOLS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
    environment.filters["at_backticks"] = re.compile("`([^`]+)`").split
    environment.filters["cells"] = _cells
    environment.globals["still"] = charts.still
    return environment


def _groups(section: Section) -> list[tuple[str, list[Part]]]:
    """Groups neighbouring parts of one kind, [("Plot", [plot, plot]), ("str", [text]), ...]."""
    kinds = itertools.groupby(section.parts, key=lambda part: type(part).__name__)
    return [(kind, list(parts)) for kind, parts in kinds]


def number(value: float) -> str:
    """Formats a number for people: 12,345, 0.1235, 1.2e-05."""
    is_small = isinstance(value, float) and abs(value) < 10_000
    return f"{value:.4g}" if is_small else f"{value:,.0f}"


def _cells(table: Table) -> list[list[tuple[bool, str]]]:
    """Returns the cells of a table in rows, the columns' names first.

    A cell is (whether its column is of numbers, its text). In a column of shares, numbers from 0 to
    1, each has four decimals.
    """
    columns = []
    for i, name in enumerate(table.columns):
        values = [row[i] for row in table.rows]
        is_number = all(isinstance(x, int | float) for x in values)
        floats = [x for x in values if isinstance(x, float)]
        are_shares = all(x == 0 or 1e-3 <= x <= 1 for x in floats)
        texts = [_cell(x, are_shares) for x in values]
        columns.append([(is_number, text) for text in (name, *texts)])
    return list(zip(*columns, strict=True))  # columns -> rows


def _cell(value: object, is_share: bool) -> str:
    """Returns the text of a cell; `is_share`: a float has four decimals."""
    if is_share and isinstance(value, float):
        return f"{value:.4f}"
    return number(value) if isinstance(value, int | float) else str(value)
