"""SVG pictures of boxes and arrows, in light and dark.

A picture is WIDTH pixels wide, about those of a phone, so that NOTE are the smallest letters that
are seen; y grows upwards from 0, as signals do in the paper's figures.
"""

import html
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from transformer.tools.pages import charts

Point = tuple[float, float]
WIDTH, SHOWN = 400, 1.2  # SHOWN: how much larger it is where there is room
NAME, NOTE, TITLE = 13, 11.5, 16  # sizes of letters
LINE, GAP = 15, 15  # the height of a line, and from box to box: room for an arrow
FONTS = "system-ui, Noto Sans KR, Noto Sans CJK KR, Apple SD Gothic Neo, Malgun Gothic, sans-serif"
PAPER = {"light": "#fdfdfc", "dark": "#14171a"}  # as in transformer/tools/pages/page.css
KINDS = {"network": 0, "attention": 1, "words": 2, "state": 3}  # numbers in charts.CATEGORIES
LAYOUT = f"""
svg {{ max-width: 100%; height: auto }}
text {{ font: {NOTE}px {FONTS}; text-anchor: middle }}
.name {{ font-size: {NAME}px }} .title {{ font-size: {TITLE}px; font-weight: 600 }}
.left {{ text-anchor: start }} .right {{ text-anchor: end }}
rect {{ fill-opacity: 0.13; stroke-opacity: 0.75 }} .paper {{ fill-opacity: 1 }}
path {{ fill: none; stroke-width: 1.3 }}
.arrow {{ marker-end: url(#head) }} .dotted {{ stroke-dasharray: 2 3 }}
"""
HEAD = """<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"
markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0.5 1L7.5 4L0.5 7z"/>
</marker></defs>
"""


class Box(NamedTuple):
    """A box with a name and notes below it; x is its centre, y its bottom."""

    x: float
    y: float
    width: float
    kind: str  # of KINDS, or 'plain', which is grey
    lines: Sequence[str]
    room: float = 0  # below the lines

    @property
    def top(self) -> float:
        return self.y + LINE * (1 + len(self.lines)) + self.room

    @property
    def middle(self) -> float:
        return (self.y + self.top) / 2


def column(x: float, y: float, width: float, rows: Sequence[tuple], gap: float = GAP) -> list[Box]:
    """Returns boxes one above the other; a row has the fields of a Box from `kind` on."""
    boxes = []
    for row in rows:
        boxes.append(Box(x, y, width, *row))
        y = boxes[-1].top + gap
    return boxes


def box(it: Box) -> str:
    """Draws a box."""
    drawn = rect(it.x - it.width / 2, it.y, it.width, it.top - it.y, it.kind)
    for i, line in enumerate(it.lines, start=1):
        drawn += text(it.x, it.top - 4 - LINE * i, line, "name" if i == 1 else "note")
    return drawn


def chain(boxes: Sequence[Box]) -> str:
    """Draws boxes, and an arrow from each to the next above it."""
    ways = (((a.x, a.top), (b.x, b.y)) for a, b in itertools.pairwise(boxes))
    return "".join(map(box, boxes)) + arrows(*ways)


def small(x: float, y: float, width: float, kind: str, *lines: str) -> str:
    """Draws a box with lines of small letters; x is its centre."""
    height = 5 + LINE * len(lines)
    drawn = rect(x - width / 2, y, width, height, kind, 4)
    for i, line in enumerate(lines, start=1):
        drawn += text(x, y + height + 1 - LINE * i, line, "small")
    return drawn


def rect(x: float, y: float, width: float, height: float, kind: str, radius: float = 6) -> str:
    """Draws a rectangle, from its lower left corner."""
    place = f'x="{x:g}" y="{-y - height:g}" width="{width:g}" height="{height:g}"'
    return f'<rect class="{kind}" {place} rx="{radius:g}"/>\n'


def text(x: float, y: float, words: str, kind: str = "note") -> str:
    """Draws a line of text on the baseline y."""
    return f'<text class="{kind}" x="{x:g}" y="{-y:g}">{html.escape(words)}</text>\n'


def arrows(*ways: Sequence[Point]) -> str:
    """Draws arrows, each through its points."""
    return "".join(path(*way) for way in ways)


def path(*points: Point, kind: str = "arrow", opacity: float = 1) -> str:
    """Draws a path with round corners; one of another `kind` than 'arrow' has no head."""
    drawn = f"M{points[0][0]:g} {-points[0][1]:g}"
    for before, (x, y), after in zip(points, points[1:], points[2:], strict=False):
        towards = lambda end, start: start + max(-6, min(6, end - start))
        (a, b), (c, d) = ((towards(end[0], x), towards(end[1], y)) for end in (before, after))
        drawn += f"L{a:g} {-b:g}Q{x:g} {-y:g} {c:g} {-d:g}"
    drawn += f"L{points[-1][0]:g} {-points[-1][1]:g}"
    return f'<path class="{kind}" stroke-opacity="{opacity:.2g}" d="{drawn}"/>\n'


def document(about: str, height: float, drawn: str, style: str = "") -> str:
    """Returns a picture; `about`, a title and a text, says to a screen reader what is seen."""
    title, _, about = html.escape(about).partition("\n\n")
    light, dark = ("".join(_colours(scheme)) for scheme in ("light", "dark"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {-height:g} {WIDTH} {height:g}" '
        f'width="{WIDTH * SHOWN:g}" height="{height * SHOWN:g}" role="img" '
        f'aria-labelledby="title about">\n<title id="title">{title}</title>\n'
        f'<desc id="about">{about}</desc>\n<style>{LAYOUT}{light}'
        f"@media (prefers-color-scheme: dark) {{\n{dark}}}\n{style}</style>\n{HEAD}"
        f"{rect(0.5, 0.5, WIDTH - 1, height - 1, 'paper', 10)}{drawn}</svg>\n"
    )


def _colours(scheme: str) -> Iterator[str]:
    """Yields the rules for a scheme, 'light' or 'dark'."""
    ink, muted, line = charts.INKS[scheme]
    yield f"text {{ fill: {ink} }} .note {{ fill: {muted} }} path {{ stroke: {muted} }}\n"
    yield f"marker path {{ fill: {muted}; stroke: none }} .panel {{ fill: none; stroke: {line} }}\n"
    yield f".paper {{ fill: {PAPER[scheme]}; stroke: {line} }}\n"
    colours = {kind: charts.CATEGORIES[scheme][number] for kind, number in KINDS.items()}
    for kind, colour in {"plain": muted, **colours}.items():
        yield f".{kind} {{ stroke: {colour} }} rect.{kind} {{ fill: {colour} }}\n"
