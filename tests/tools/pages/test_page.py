"""A page is one file that a browser opens by itself, whatever text is in it."""

import numpy as np
import pytest
from tools.pages import browser, golden
from tools.pages.workdirs import HOSTILE

from transformer.tools.pages import attention_view, charts, page
from transformer.tools.pages.attention_view import Example, Map
from transformer.tools.pages.page import Markup, Plot, Section, Table

POINTS = [{"x": 1.0001, "y": 2.5, "name": HOSTILE}, {"x": 1.0015, "y": 1e-7, "name": "둘"}]
PLOT = Plot(
    HOSTILE,
    {
        "data": {"values": POINTS},
        "height": 100,
        "mark": {"type": "line", "tooltip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "scale": {"zero": False}},
            "y": {"field": "y", "type": "quantitative"},
            "color": {"field": "name", "type": "nominal"},
        },
    },
    HOSTILE,
    Table([HOSTILE, "number"], [[HOSTILE, 1234567], ["둘", 0.00001234]], HOSTILE),
)
NARROW = PLOT._replace(spec={**PLOT.spec, "width": 250})  # the numbers of its axis would touch
WIDE = Table([f"column {i}" for i in range(30)], [["나는 사과를 좋아해"] * 30])
ROWS = [["a", 0.5, 0.5], ["b", 0.12345, 2.5], ["c", 0.0, 10.25]]
SHARES = Table(["class", "F1, which is a share", "loss"], ROWS, folded="All 3 rows")
MARKUP = Markup(
    "<b class=x>b</b>", ".x { color: var(--accent) }", "window.runs = (window.runs || 0) + 1"
)
SENTENCE = Example(HOSTILE, [Map("cross", ["one", HOSTILE], ["x"], np.ones((1, 2, 2, 1)))])
SECTIONS = [
    Section(HOSTILE, [HOSTILE, {HOSTILE: f"`{HOSTILE}`"}, PLOT, PLOT, WIDE, MARKUP, "x" * 500]),
    Section("Two", [MARKUP, NARROW, SHARES, attention_view.view([SENTENCE])]),
]


@pytest.fixture(scope="module")
def text():
    return page.html(HOSTILE, SECTIONS, about=HOSTILE)


def test_a_reader_sees(text):
    """Every kind of part, and a text stays a text."""
    golden.check(golden.read(text), __file__, "page")


def test_no_text_becomes_an_element_and_nothing_is_fetched(text):
    """Scripts: data, the themes, the plots' library, the page's own, that of MARKUP, and the
    picture's two."""
    elements = golden.Reader(text).elements
    assert [tag for tag, _ in elements].count("script") == 7
    assert "img" not in [tag for tag, _ in elements]
    urls = [attributes[x] for _, attributes in elements for x in ("src", "href") if x in attributes]
    assert urls == ["data:,", "#s0", "#s1"]  # the first: no icon
    assert len(text) < 3e6
    assert len(page.html("small", [Section("a", ["text"])])) < 20_000  # no library without plots


def test_non_finite_numbers_are_refused():
    points = {"values": [{"x": float("nan"), "y": 1, "name": "a"}]}
    with pytest.raises(ValueError, match="JSON"):
        page.html("", [Section("", [PLOT._replace(spec={**PLOT.spec, "data": points})])])


def colour_of(dark):
    return charts.THEMES["dark" if dark else "light"]["mark"]["color"]


@pytest.mark.slow
def test_a_browser_draws_it(text, tmp_path):
    """In print and without scripts, a plot is a picture."""
    file = tmp_path / "page.html"
    file.write_text(text)
    with browser.chromium() as driver:
        for dark in browser.open_everywhere(driver, file):
            assert driver.title == HOSTILE
            assert driver.execute_script("return runs") == 1
            assert browser.ask(driver, "colour()") == colour_of(dark)
        browser.emulate(driver, dark=False)  # while the page is open
        browser.becomes(lambda: browser.ask(driver, "colour()"), colour_of(dark=False))
        files = [
            ["Save as SVG", f"{HOSTILE}.svg", "blob"],
            ["Save as PNG", f"{HOSTILE}.png", "data"],
        ]
        browser.becomes(lambda: browser.ask(driver, "saved()"), 3 * files)
        assert browser.ask(driver, "seen()") == [True, False] * 3
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert browser.ask(driver, "seen()") == [False, True] * 3
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        file.write_text(text.replace("</main>", "<img src=https://example.org/x.png></main>"))
        browser.open_page(driver, file)
        [fault] = browser.faults(driver)["console"]
        assert "Content Security Policy" in fault
        file.write_text(text.replace("script-src", "x-script-src"))  # the page forbids scripts
        driver.get(file.resolve().as_uri())
        assert browser.ask(driver, "seen()") == [False, True] * 3
        assert browser.ask(driver, "overflowing()") == browser.ask(driver, "faint()") == []
