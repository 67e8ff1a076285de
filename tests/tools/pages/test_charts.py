"""Pictures of a chart: for a document in the colours of a theme, for a page in the page's own."""

import re
import xml.etree.ElementTree

import pytest
from tools.pages.workdirs import HOSTILE

from transformer.tools.pages import charts, page

NAMES = [HOSTILE, 'id="x" #d55e00', "둘"]
CHART = {
    "title": NAMES[1],
    "data": {"values": [{"x": i, "y": i, "name": name} for i, name in enumerate(NAMES)]},
    "mark": {"type": "line", "point": True, "clip": True},
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
        "color": {"field": "name", "type": "nominal"},
    },
}


def texts(picture):
    root = xml.etree.ElementTree.fromstring(picture)
    return {x.text for x in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_has_the_colours_of_its_theme(dark):
    picture = charts.svg(CHART, dark=dark)
    assert NAMES[1] in texts(picture)
    assert charts.CATEGORIES["dark" if dark else "light"][0] in picture
    assert charts.INKS["light" if dark else "dark"][0] not in picture


def test_a_picture_in_a_page_has_variables_of_the_page_and_ids_of_its_own():
    picture = charts.still(CHART, width=300, prefix="plot7")
    assert NAMES[1] in texts(picture)  # a text is not changed
    tags = "".join(re.findall("<[^>]*>", picture))
    used = set(re.findall(r"var\(--([\w-]+)\)", tags))
    assert {"category-1", "category-3", "ink", "muted"} <= used
    assert not [colour for colour in charts.VARIABLES if colour in tags]
    ids = re.findall(r'\bid="(.*?)"', tags)
    assert ids
    assert all(x.startswith("plot7-") for x in ids)
    assert set(re.findall(r"url\(#(.*?)\)", tags)) <= set(ids)


def test_the_style_has_the_colours_of_the_themes():
    light, dark = re.findall(r":root \{(.*?)\}", page.read("pages/page.css"), re.DOTALL)
    for name, style in (("light", light), ("dark", dark)):
        values = dict(re.findall(r"--([\w-]+): (#\w+);", style))
        colours = [*charts.INKS[name], *charts.CATEGORIES[name]]
        assert [values[variable] for variable in charts.VARIABLES.values()] == colours
