"""The picture of attention: its numbers, and what a browser does when a word is pointed at."""

import html.parser
import json
import re

import numpy as np
import pytest
from helpers import browser
from helpers.workdirs import HOSTILE

from transformer.reports import attention_view, page
from transformer.reports.attention_view import Example, Map

QUERIES, KEYS = ["one", HOSTILE, "three"], ["x", "y", "z", "w"]


def weights(layers=2, heads=2, seed=0):
    """Random weights [L, H, T, S] whose rows sum to 1."""
    x_LHTS = np.random.default_rng(seed).random((layers, heads, len(QUERIES), len(KEYS))) ** 3
    return x_LHTS / x_LHTS.sum(axis=-1, keepdims=True)


def example(**changes):
    cross = Map("cross", QUERIES, KEYS, weights(), "predicts", "source", **changes)
    return Example(HOSTILE, [cross, cross._replace(name="other", weights_LHTS=weights(seed=1))])


def data_of(markup):
    return json.loads(re.search(r'json">(.*)</script>', markup.html)[1])


def test_weights_are_in_thousandths():
    [found] = data_of(attention_view.view([example()]))
    assert found["title"] == HOSTILE
    assert [m["name"] for m in found["maps"]] == ["cross", "other"]
    thousandths = np.array(found["maps"][0]["weights"]).reshape(weights().shape) / 1000
    np.testing.assert_allclose(thousandths, weights(), atol=5.001e-4)


def test_no_text_ends_the_data():
    tags = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)
    parser.feed(attention_view.view([example()]).html)
    assert "img" not in tags
    assert tags.count("script") == 1


def test_a_large_page_has_fewer_sentences():
    large = Map("encoder", ["a"] * 50, ["b"] * 50, np.zeros((6, 8, 50, 50)))
    examples = [Example(str(i), [large]) for i in range(4)]
    kept = data_of(attention_view.view(examples))
    assert [x["title"] for x in kept] == ["0", "1"]
    assert len(data_of(attention_view.view([Example("", [large] * 9)]))) == 1


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["▁the", "▁c", "at", "</s>"], ["the", "c", "·at", "</s>"]),
        (["▁", "나", "는", "▁", "</s>"], ["␣", "나", "·는", "␣", "</s>"]),
        (["<s>", "▁a"], ["<s>", "a"]),
        (["a", " ", "b"], ["a", "␣", "b"]),
        ([], []),
    ],
)
def test_pieces_are_readable(pieces, shown):
    assert attention_view.readable(pieces) == shown


STATE = """
const shown = [...document.querySelectorAll("line")].filter((x) => x.style.opacity > 0);
const cells = [...document.querySelectorAll("td[title]")].map((x) => x.title.split(": ").pop());
return [shown.length, document.querySelector(".said").textContent, cells];
"""


@pytest.mark.slow
def test_a_word_shows_its_lines_alone(tmp_path):
    """By pointer and by keyboard, of the layer and head chosen."""
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.support.ui import Select

    file = tmp_path / "page.html"
    parts = [attention_view.view([example()]), attention_view.view([example(first=0)])]
    file.write_text(page.html("x", [page.Section("a", parts[:1])]))
    with browser.chromium() as driver:
        browser.open_page(driver, file)
        sentence, kind, layer, head = map(Select, driver.find_elements("css selector", "select"))
        assert [len(x.options) for x in (sentence, kind, layer, head)] == [1, 2, 2, 3]
        mean_TS = weights()[1].mean(axis=0)  # the last layer, of all heads
        number, said, cells = driver.execute_script(STATE)
        assert said == ""
        assert number == (mean_TS >= 0.01).sum()
        np.testing.assert_allclose(np.array(cells, float), mean_TS.ravel(), atol=1.1e-3)
        buttons = driver.find_elements("css selector", ".pair button")
        assert [button.text for button in buttons] == QUERIES + KEYS

        ActionChains(driver).move_to_element(buttons[2]).perform()
        number, said, _ = driver.execute_script(STATE)
        assert number == (mean_TS[2] >= 0.01).sum()
        best = KEYS[mean_TS[2].argmax()]
        assert said.startswith(f"three attends to: {best} ")
        buttons[2].send_keys(Keys.TAB)  # to the first key
        number, said, _ = driver.execute_script(STATE)
        assert number == (mean_TS[:, 0] >= 0.01).sum()
        assert said.startswith("x is attended to by: ")

        buttons[0].click()
        ActionChains(driver).move_to_element(buttons[2]).move_by_offset(0, 200).perform()
        _, said, _ = driver.execute_script(STATE)
        assert said.startswith("one attends to: ")  # it keeps the focus

        kind.select_by_visible_text("other")
        layer.select_by_visible_text("1")
        head.select_by_visible_text("2")
        _, _, cells = driver.execute_script(STATE)
        expected = weights(seed=1)[0, 1].ravel()
        np.testing.assert_allclose(np.array(cells, float), expected, atol=1.1e-3)
        assert browser.faults(driver) == browser.NONE

        file.write_text(page.html("x", [page.Section("a", parts)]))  # two of them
        browser.open_page(driver, file, width=browser.WIDTHS["phone"], dark=True)
        assert len(driver.find_elements("css selector", ".pair button")) == 14
        assert len(driver.find_elements("css selector", "option")) == 2 * (1 + 2 + 2 + 3)
        assert driver.find_elements("css selector", ".said")[1].text.startswith("one attends to")
        assert browser.faults(driver) == browser.NONE
