"""The tour: its commands run, and its pictures are what they draw, in both languages.

That its pages say the same is asked of all Korean pages in test_docs.py.
"""

import html
import math
import re
from pathlib import Path

import pytest

from docs.diagrams.__main__ import DIAGRAMS
from docs.tour import __main__ as tour
from docs.tour import korean, picture

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {"tour.md": "pictures", "tour.ko.md": "pictures/ko"}  # with the folder of its pictures
KOREAN = set(korean.WORDS.values())
# Largest differences seen between jax 0.10 and 0.12, and between two ways to compile: 0.001 but for
# the attention of the trained ViT, whose rounding grows to 0.06 while it learns.
TOLERANCES = {"vit": 0.15}
# Numbers of a picture that may differ by more. Of the 100 patches of the ViT one was seen to,
# between an AMD and an Intel CPU, whose products round otherwise.
OUTLIERS = {"vit": 4}
# Most of the time of all pictures.
LONGEST = ("forgetting", "bottleneck", "mixers", "gpt", "position_probe", "vit", "order")
LONGEST += ("sum", "residuals", "normalisation", "ensemble", "parsing")
# Numbers of a section that no picture of it shows: of the data, or measured for the sentence alone.
NOT_DRAWN = {
    "tokens": "95 0.94",
    "pieces": "24,000 3.54 1.11 54 68 19.37",
    "bottleneck": "1,600 90 84 35",
    "attention": "0.93",
    "hard": "69",
    "heads": "36 0.896 0.98",
    "sum": "283,264",
    "normalisation": "22 63",
    "residuals": "1.3 5.1",
    "training": "63,045,632 3,150,336 4,199,936 24,000",
    "beam": "336 0.98 0.98",
    "gpt": "2.52 0.83 230 42",
    "bert": "15",
    "sense": "3,840",
}
CODE = r"```.*?```|`[^`]*`|^    [^\n]*$|\$[^$]*\$"
# Links, tables, years, and numbers of steps, sections and equations.
OTHERS = r"\]\([^)]*\)|^\|[^\n]*$|\b(?:19|20)\d\d\b|\b(?:[Ss]teps?|section|equations?) [\d.]+"


def matches(page, pattern):
    return re.findall(pattern, (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands(page):
    return matches(page, r"^    ([^\n]*python [^\n]*)$")


def pictures(page):
    return matches(page, r"!\[[^\]]+\]\(([^)]+)\)")


@pytest.mark.parametrize("page", PAGES)
def test_every_step_has_its_command_and_its_picture(page):
    drawn = [command.split()[3] for command in commands(page) if "-m docs.tour" in command]
    assert drawn == list(tour.STEPS)
    own = [file for file in pictures(page) if Path(file).stem not in DIAGRAMS]
    assert own == [f"{PAGES[page]}/{step}.svg" for step in tour.STEPS]


def numbers(value):
    """Returns all numbers in a chart, those in its texts included."""
    if isinstance(value, dict):
        value = [x for key, x in value.items() if key not in picture.STYLE]
    if isinstance(value, list):
        return [number for x in value for number in numbers(x)]
    written = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?", str(value).replace("_", ""))
    return [float(number.replace(",", "")) for number in written]


@pytest.mark.parametrize("section", matches("tour.md", r"^## \d+\. ([^\n]*\n.*?)(?=^## |\Z)"))
def test_a_section_has_the_numbers_of_its_pictures(section):
    """Numbers of several digits; others are the code's. A dense picture has most by chance."""
    steps = [x for x in re.findall(r"\(pictures/(\w+)\.svg\)", section) if x in tour.STEPS]
    drawn = numbers([picture.specification(DOCS / "pictures" / f"{x}.svg") for x in steps])
    code = re.findall(CODE, section, re.MULTILINE | re.DOTALL)
    code = numbers([*code, *((DOCS / "tour" / f"{x}.py").read_text("utf-8") for x in steps)])
    prose = re.sub(f"{CODE}|{OTHERS}", "", section, flags=re.MULTILINE | re.DOTALL)
    missing = []
    for text in re.findall(r"(?<![\w.])(\d[\d,]*\.\d+|\d[\d,]*\d)", prose):
        number, half = float(text.replace(",", "")), 0.501 * 10.0 ** -len(text.partition(".")[2])
        close = (abs(x * share - number) < half for x in drawn for share in (1, 100))
        if number not in code and not any(close):
            missing.append(text)
    assert missing == NOT_DRAWN.get(steps[0], "").split()


def data_of(chart):
    """Returns the texts of a chart, or of a part of it, that are data."""
    if isinstance(chart, list):
        return set().union(*map(data_of, chart))
    if not isinstance(chart, dict):
        return set()
    texts = {x for key, x in chart.items() if key in korean.DATA and isinstance(x, str)}
    return texts.union(*map(data_of, chart.values()))


def not_korean(file):
    """Returns what a picture says in another language, but for data and for single letters."""
    said = map(html.unescape, re.findall(r"<text[^>]*>([^<]*)</text>", file.read_text("utf-8")))
    said = {x for x in said if re.search("[A-Za-z]{2}", x)} - data_of(picture.specification(file))
    return {x for x in said if x not in KOREAN and not KOREAN.issuperset(x.split(", "))}


@pytest.mark.parametrize("step", [step for step in tour.STEPS if step not in korean.DRAWINGS])
def test_the_korean_picture_is_the_english_one_in_korean(step):
    english, translated = (DOCS / folder / f"{step}.svg" for folder in PAGES.values())
    chart = korean.translated(picture.specification(english))
    assert chart == picture.specification(translated), "python -m docs.tour.korean draws it again"
    assert not not_korean(translated)


@pytest.mark.parametrize("name", korean.DRAWINGS)
def test_the_korean_drawing_is_the_english_one_in_korean(name):
    english, translated = (DOCS / folder / f"{name}.svg" for folder in PAGES.values())
    drawing = english.read_text("utf-8")
    assert translated.read_text("utf-8") == korean.relabelled(drawing), "python -m docs.tour.korean"
    labels = {html.unescape(x) for x in re.findall(r">([^<>]+)</text>", drawing)}
    words = {x for x in labels if re.search("[a-z]{2} |[a-z]{2}-", x)}
    assert words
    assert not [x for x in words if korean.in_korean(x) == x and "나는" not in x]


def test_what_a_chart_says_is_translated_and_data_are_not(tmp_path):
    rows = [{"score": "loss", "sees": "loss", "rate": 1.0}]
    color = {"field": "score", "scale": {"domain": ["loss"]}}
    encoding = {"x": {"field": "sees"}, "y": {"field": "rate"}, "color": color}
    chart = {"title": "encoder, head 1", "mark": "bar", "encoding": encoding}
    translated = korean.translated({**chart, "data": {"values": rows}})
    assert translated["title"] == "인코더, 헤드 1"
    assert translated["data"]["values"] == [{"score": "손실", "sees": "loss", "rate": 1.0}]
    assert translated["encoding"]["color"]["scale"]["domain"] == ["손실"]
    titles = {key: channel["title"] for key, channel in translated["encoding"].items()}
    assert titles == {"x": "보는 단어", "y": "학습률", "color": "점수"}
    picture.save(translated, tmp_path / "a.svg")
    assert not_korean(tmp_path / "a.svg") == set()
    picture.save({**translated, "title": "encoder, 헤드 1"}, tmp_path / "a.svg")
    assert not_korean(tmp_path / "a.svg") == {"encoder, 헤드 1"}


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(x, marks=pytest.mark.nightly) if x in LONGEST else x for x in tour.STEPS]
)
def test_a_command_draws_the_pictures_that_the_pages_show(step, tmp_path, capsys):
    tour.main([step, f"--picture={tmp_path / 'drawn.svg'}"])
    assert capsys.readouterr().out.endswith("drawn.svg\n")
    chart = picture.specification(tmp_path / "drawn.svg")
    command = f"python -m docs.tour {step} --picture=docs/pictures/{step}.svg"
    charts = [chart] if step in korean.DRAWINGS else [chart, korean.translated(chart)]
    for drawn, folder in zip(charts, PAGES.values(), strict=False):
        kept = picture.specification(DOCS / folder / f"{step}.svg")
        again = f"{folder}/{step}.svg is not drawn by {command} && python -m docs.tour.korean"
        different = differences(drawn, kept, TOLERANCES.get(step, 0.02))
        assert len(different) <= OUTLIERS.get(step, 0), f"{again}: {different}"
