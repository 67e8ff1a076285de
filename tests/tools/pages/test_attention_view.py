"""The picture of attention: its numbers, and what a browser does when a word is pointed at."""

import numpy as np
import pytest
from tools.pages import browser
from tools.pages.workdirs import HOSTILE
from tools.report import insides

from transformer.tools.pages import attention_view, page
from transformer.tools.pages.attention_view import Example, Map

QUERIES, KEYS = ["one", HOSTILE, "three"], ["x", "y", "z", "w"]


def weights(layers=2, heads=2, seed=0):
    """Random weights [L, H, T, S] whose rows sum to 1."""
    x_LHTS = np.random.default_rng(seed).random((layers, heads, len(QUERIES), len(KEYS))) ** 3
    return x_LHTS / x_LHTS.sum(axis=-1, keepdims=True)


def example():
    cross = Map("cross", QUERIES, KEYS, weights(), "predicts", "source")
    return Example(HOSTILE, [cross, cross._replace(name="other", weights_LHTS=weights(seed=1))])


def test_a_large_page_has_fewer_sentences():
    large = Map("encoder", ["a"] * 50, ["b"] * 50, np.zeros((6, 8, 50, 50)))
    kept = insides.data_of(attention_view.view([Example(str(i), [large]) for i in range(4)]))
    assert [x["title"] for x in kept] == ["0", "1"]
    assert len(insides.data_of(attention_view.view([Example("", [large] * 9)]))) == 1


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


def said(word, verb, shares, words):
    """What `attention` of browser.js is while the pointer or the focus is on a word."""
    there = [words[i] for i in np.argsort(-shares, kind="stable") if shares[i] >= 0.01]
    return [len(there), f"{word} {verb}: {', '.join(there)}"]


@pytest.mark.slow
def test_a_word_shows_its_lines_alone(tmp_path):
    """By pointer and by keyboard, of the layer and head chosen; a long sentence fits a phone."""
    from selenium.webdriver import ActionChains, Keys

    def write(*pictures):
        parts = [attention_view.view([picture]) for picture in pictures]
        (tmp_path / "page.html").write_text(page.html("x", [page.Section("a", parts)]))
        return tmp_path / "page.html"

    with browser.chromium() as driver:
        browser.open_page(driver, write(example()))
        assert browser.ask(driver, "options()") == [1, 2, 2, 3]
        mean_TS = weights()[1].mean(axis=0)  # the last layer, of all heads
        state = lambda: browser.ask(driver, "attention()")
        assert state() == [(mean_TS >= 0.1).sum(), ""]
        np.testing.assert_allclose(browser.ask(driver, "cells()"), mean_TS.ravel(), atol=1.1e-3)
        buttons = driver.find_elements("css selector", ".pair button")
        assert [button.text for button in buttons] == QUERIES + KEYS

        ActionChains(driver).move_to_element(buttons[2]).perform()
        browser.becomes(state, said("three", "attends to", mean_TS[2], KEYS))
        buttons[2].send_keys(Keys.TAB)  # to the first key
        browser.becomes(state, said("x", "is attended to by", mean_TS[:, 0], QUERIES))
        buttons[0].click()
        ActionChains(driver).move_to_element(buttons[2]).move_by_offset(0, 200).perform()
        browser.becomes(state, said("one", "attends to", mean_TS[0], KEYS))  # it keeps the focus

        # By one script a choice, because each choice replaces the options.
        for place, chosen in ((1, 1), (2, 0), (3, 2)):
            browser.ask(driver, f"choose({place}, {chosen})")
        expected = weights(seed=1)[0, 1].ravel()
        np.testing.assert_allclose(browser.ask(driver, "cells()"), expected, atol=1.1e-3)
        assert browser.faults(driver) == browser.NONE

        # Two pictures; a ␣ of the heat map stands upright.
        words = 30 * ["␣", "·expensive"]
        long = Example("", [Map("", words, words, np.eye(60)[None, None], first=0)])
        browser.open_page(driver, write(long, example()), width=browser.WIDTHS["phone"], dark=True)
        assert browser.ask(driver, "options()") == [1, 1, 1, 1, 1, 2, 2, 3]
        assert driver.find_element("css selector", ".said").text.startswith("␣ attends to")
        assert browser.ask(driver, "orientation()") == "upright"
        assert browser.faults(driver) == browser.NONE
