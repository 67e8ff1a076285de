"""Pictures that move by themselves, in beats; still, they show all beats at once.

A reader who wants less motion sees the still picture, and so does a program that knows no CSS.
`stepped` makes a page of a picture, in which one goes from beat to beat.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from docs.diagrams.drawing import text
from transformer.tools.pages import page
from transformer.tools.pages.page import Markup, Section

SECONDS, HELD = 1.6, 3  # of a beat; how many beats long the last one is
FAINT, CHANGE = 0.15, 0.2  # an opacity; how many beats it takes to change it
CONTROLS = Path(__file__).with_name("controls.html")


class Beat(NamedTuple):
    """What is new in a beat."""

    told: str  # in words, in this beat only
    stays: str = ""  # a drawing that is seen from now on
    fades: str = ""  # a drawing that is faint from the next beat but one to the last


def groups(beats: Sequence[Beat], x: float, y: float) -> str:
    """Returns the drawing of all beats; what is told begins at (x, y)."""
    drawn = []
    for i, beat in enumerate(beats):
        told = text(x, y, beat.told, "note left")
        for kind, content in (("fades", beat.fades), ("stays", beat.stays), ("told", told)):
            drawn.append(f'<g class="beat {kind} b{i}" data-beat="{i}">\n{content}</g>\n')
    return "".join(drawn)


def style(beats: Sequence[Beat]) -> str:
    """Returns the CSS that moves the groups of these beats."""
    last = len(beats) - 1
    rules = [f".beat path {{ stroke-width: 2 }} .told:not(.b{last}) {{ opacity: 0 }}\n"]
    rules.append("@media (prefers-reduced-motion: no-preference) {\n")
    rules.append(f".beat {{ animation: {(last + HELD) * SECONDS:g}s infinite }}\n")
    for i in range(len(beats)):
        fades = [(i + 2, FAINT)] * (i + 2 < last)
        changes = {
            "stays": [(i, 1)],
            "fades": [(i, 1), *fades, (last, 1)],
            "told": [(i, 1), *[(i + 1 - CHANGE, 0)] * (i < last)],
        }
        for kind, opacities in changes.items():
            rules.append(f".{kind}.b{i} {{ animation-name: {kind}{i} }}\n")
            rules.append(f"@keyframes {kind}{i} {{ {_frames(opacities, last + HELD)} }}\n")
    return "".join([*rules, "}\n"])


def _frames(opacities: Sequence[tuple[float, float]], beats: int) -> str:
    """Returns keyframes: from which beat on there is which opacity."""
    frames, before = ["0% { opacity: 0 }"], 0
    for beat, opacity in opacities:
        for at, value in ((beat, before), (beat + CHANGE, opacity)):
            frames.append(f"{100 * at / beats:.4g}% {{ opacity: {value} }}")
        before = opacity
    return " ".join([*frames, f"98% {{ opacity: {before} }} 100% {{ opacity: 0 }}"])


def stepped(title: str, svg: str) -> str:
    """Returns a page with the picture, in which the reader goes from beat to beat."""
    return page.html(title, [Section("", [Markup(CONTROLS.read_text("utf-8") + svg)])])
