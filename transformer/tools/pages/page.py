"""Makes an HTML page of sections: one offline file, in light and dark, for any screen width.

    Section("Curves", ["One paragraph.", Plot(...), Plot(...), Table(...)])

A page is `html(title, sections)`, a section a title and its parts in reading order. A part is

    str       a paragraph of plain text, with `code` between backticks
    dict      {label: text}, one per line
    Table     columns and rows of texts and numbers; numbers are aligned right
    Plot      a Vega-Lite specification with its data inside ({"data": {"values": [...]}}), a
              description in words, and the same numbers as a Table, for screen readers.
              A plot is as wide as its column, in the colours of the page: leave out `width`,
              `$schema`, `config` and colours. Neighbouring plots share a grid; a single plot is as
              wide as the page. In print and without scripts it is a still picture
    Markup    any other HTML, with its style and script. `markup(name, ...)` fills in a template,
              which escapes all texts. Colours are the CSS variables of page.css, var(--ink) and so
              on. The style is global, so its selectors begin with a class of the Markup. A script
              runs once per page, in its own scope, even if several Markups have it

page.html is the template of a page, which escapes texts, titles and captions. A Plot must have no
NaN or infinity, because JSON has neither. Scripts and data are embedded, and a content security
policy blocks all network access.
"""

import functools
import itertools
import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2

from transformer.errors import UserError
from transformer.modes import lines
from transformer.runtime import paths
from transformer.tools.pages import charts

TOOLS = Path(__file__).parents[1]  # templates, styles and scripts are named from here


def check_writable(file: Path, key: str) -> None:
    """Creates the folder of a file; raises UserError with `key` if the file cannot be written."""
    if file.is_dir():
        raise UserError(f"{key}: {file} is a folder, expected a file")
    paths.make_folder(file.parent)
    try:
        if not paths.in_bucket(file):
            tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise UserError(f"{key}: cannot write in {file.parent}: {error.strerror}") from error


class Table(NamedTuple):
    """Columns and rows of texts and numbers.

    A click on the label `folded`, such as 'All 120 keys', shows a hidden table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    folded: str = ""


class Plot(NamedTuple):
    """A Vega-Lite specification, a description in words, and the same numbers as a table."""

    title: str
    spec: dict
    description: str
    table: Table


class Markup(NamedTuple):
    """HTML with escaped texts, and its CSS and JavaScript."""

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
    # Only a page with plots has Vega, because it is large. Equal styles and scripts appear once.
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
    """Returns NAME.html filled with `values`, and NAME.css and NAME.js if these exist."""
    return Markup(fill(f"{name}.html", **values), read(f"{name}.css"), read(f"{name}.js"))


def fill(name: str, **values: object) -> str:
    """Returns a template filled with `values`, whose texts are escaped."""
    return _templates().get_template(name).render(values)


@functools.cache
def read(name: str) -> str:
    """Returns the text of a style or a script; "" if the file does not exist."""
    file = TOOLS / name
    return file.read_text("utf-8") if file.exists() else ""


@functools.cache
def _templates() -> jinja2.Environment:
    """Returns a jinja2 environment that escapes all texts, and fails if a value is missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TOOLS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # allow_nan=False raises ValueError for a NaN, which would break the page's JSON.
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
    environment.filters["at_backticks"] = re.compile("`([^`]+)`").split
    environment.filters["cells"] = _cells
    environment.globals["still"] = charts.still
    return environment


def write(file: Path, title: str, sections: Sequence[Section], about: str = "") -> None:
    """Writes a page."""
    # A damaged text may have half a surrogate pair, which UTF-8 cannot encode.
    paths.write_file(file, html(title, sections, about).encode("utf-8", "replace"))
    logging.info("the page is %s", file)


def show(shown: str, values: dict) -> None:
    """Prints a text on a terminal; otherwise logs it, and prints the values as a line of JSON."""
    if sys.stdout.isatty():
        print(shown, flush=True)
    else:
        # Programs read standard output, so it has only the line of JSON.
        logging.info("\n\n%s\n", shown)
        lines.write(sys.stdout.buffer, lines.to_json(values))


def text(table: Table) -> str:
    """Returns a table of texts for a terminal; the first column is aligned left."""
    # zip transposes rows to columns, each as wide as its longest text.
    columns = zip(table.columns, *table.rows, strict=True)
    padded = []
    for i, column in enumerate(columns):
        width = max(map(len, column))
        padded.append([x.rjust(width) if i else x.ljust(width) for x in column])
    return "\n".join("  ".join(row) for row in zip(*padded, strict=True))


def _groups(section: Section) -> list[tuple[str, list[Part]]]:
    """Groups neighbouring parts of one kind, [("Plot", [plot, plot]), ("str", [text]), ...]."""
    kinds = itertools.groupby(section.parts, key=lambda part: type(part).__name__)
    return [(kind, list(parts)) for kind, parts in kinds]


def number(value: float) -> str:
    """Formats a number for people: 12,345, 0.1235, 1.2e-05."""
    is_small = isinstance(value, float) and abs(value) < 10_000
    return f"{value:.4g}" if is_small else f"{value:,.0f}"


def _cells(table: Table) -> list[list[tuple[bool, str]]]:
    """Returns the rows of a table as cells, the columns' names first.

    A cell is (whether its column has only numbers, its text). A column of shares, numbers from 0 to
    1, has four decimals.
    """
    columns = []
    for i, name in enumerate(table.columns):
        values = [row[i] for row in table.rows]
        is_number = all(isinstance(x, int | float) for x in values)
        # Four decimals would leave few digits of numbers between 0 and 0.001.
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
