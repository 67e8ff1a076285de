"""The tour: its commands run, its pictures are what they draw, and both languages say the same."""

import math
import re
from pathlib import Path

import pytest

from docs.diagrams.__main__ import DIAGRAMS
from docs.tour import __main__ as tour
from docs.tour import picture, tiny

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("tour.md", "tour.ko.md")
# Largest differences seen between jax 0.10 and 0.12, and between two ways to compile: 0.001 but for
# the attention of the trained ViT, whose rounding grows to 0.06 while it learns.
TOLERANCES = {"vit": 0.15}


def matches(page, pattern):
    return re.findall(pattern, (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands(page):
    return matches(page, r"^    ([^\n]*python [^\n]*)$")


def pictures(page):
    return matches(page, r"!\[[^\]]+\]\(([^)]+)\)")


@pytest.mark.parametrize(
    "what", [r"^    ([^\n]*)$", r"\]\((pictures/[^)]+)\)", r"^```math\n(.*?)```", r"`([\w/]+\.py)`"]
)
def test_both_languages_have_the_same(what):
    english, korean = (matches(page, what) for page in PAGES)
    assert english
    assert english == korean


@pytest.mark.parametrize("page", PAGES)
def test_every_step_has_its_command_and_its_picture(page):
    drawn = [command.split()[3] for command in commands(page) if "-m docs.tour" in command]
    assert drawn == list(tour.STEPS)
    drawn = [Path(file).stem for file in pictures(page)]
    assert [name for name in drawn if name not in DIAGRAMS] == list(tour.STEPS)


def test_the_pages_load_quickly():
    sizes = {step: (DOCS / "pictures" / f"{step}.svg").stat().st_size for step in tour.STEPS}
    assert {step: size for step, size in sizes.items() if size > 150_000} == {}


def test_the_models_of_the_tour_can_be_built():
    """A model's new field, or a config's new key, shows here and not in the slow tests alone."""
    tiny.transformer(300), tiny.language_model(300), tiny.masked_language_model(300)
    tiny.recurrent(300, "additive", 32), tiny.vision_transformer(4, 20, 4)


def differences(drawn, kept, tolerance, path=""):
    """Where two charts differ: in a word, or in a number by more than the tolerance."""
    if type(drawn) is not type(kept):
        return [path]
    if isinstance(drawn, dict):
        pairs = [(key, drawn.get(key), kept.get(key)) for key in drawn.keys() | kept.keys()]
    elif isinstance(drawn, list):
        if len(drawn) != len(kept):
            return [path]
        pairs = [(i, x, y) for i, (x, y) in enumerate(zip(drawn, kept, strict=True))]
    elif isinstance(drawn, float):
        return [] if math.isclose(drawn, kept, rel_tol=tolerance, abs_tol=tolerance) else [path]
    else:
        return [] if drawn == kept else [path]
    return [place for key, x, y in pairs for place in differences(x, y, tolerance, f"{path}/{key}")]


def test_differences_are_seen():
    chart = {"title": "a", "data": {"values": [{"x": 0.5}, {"x": 2.0}]}}
    assert not differences(chart, {**chart, "data": {"values": [{"x": 0.501}, {"x": 2.0}]}}, 0.01)
    assert differences(chart, {**chart, "data": {"values": [{"x": 0.6}, {"x": 2.0}]}}, 0.01)
    assert differences(chart, {**chart, "data": {"values": [{"x": 0.5}]}}, 0.01)
    assert differences(chart, {**chart, "title": "b"}, 0.01)


def test_a_command_leaves_the_pictures_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("docs.tour.scaling.show", dict)
    monkeypatch.setattr(picture, "save", lambda *_: None)
    tour.main(["scaling"])
    assert capsys.readouterr().out == "picture: runs/tour/scaling.svg\n"


@pytest.mark.slow
@pytest.mark.parametrize("step", tour.STEPS)
def test_a_command_draws_the_picture_that_the_page_shows(step, tmp_path, capsys):
    tour.main([step, f"--picture={tmp_path / 'drawn.svg'}"])
    assert capsys.readouterr().out.endswith("drawn.svg\n")
    files = tmp_path / "drawn.svg", DOCS / "pictures" / f"{step}.svg"
    charts = [picture.specification(file) for file in files]
    command = f"python -m docs.tour {step} --picture=docs/pictures/{step}.svg"
    again = f"{files[1]} is not what its command draws: {command}"
    assert not differences(*charts, TOLERANCES.get(step, 0.02)), again
