"""The diagrams of docs/: they are those of the model as it is, and can be read on a phone."""

import pathlib
import re
from xml.etree import ElementTree

import pytest
from tools.pages import browser

from configs import wmt_base
from docs.diagrams import __main__ as diagrams
from docs.diagrams import calls, drawing, layer, model, multi_head, seq2seq
from docs.tour import decoding, picture
from transformer.models import fields

PICTURES = {name: diagrams.PICTURES / f"{name}.svg" for name in (*diagrams.DIAGRAMS, "decoding")}
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [x.text for x in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def base(monkeypatch, diagram, **changes):
    config = wmt_base.get_config()
    config.model.update(num_layers=1, **changes)
    sizes = {"source_vocab_size": 100, "target_vocab_size": 100}
    made = fields.build(config.architecture, config.model.to_dict(), **sizes)
    monkeypatch.setattr(diagram, "paper", lambda: calls.call(made))
    return diagram.draw()


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_committed_diagram_is_of_the_model_as_it_is(name):
    assert diagrams.draw(name) == PICTURES[name].read_text("utf-8"), "run python -m docs.diagrams"


def test_the_animation_is_drawn_from_the_numbers_that_it_carries():
    kept = PICTURES["decoding"].read_text("utf-8")
    drawn = decoding.draw(picture.specification(PICTURES["decoding"]))
    again = "run python -m docs.tour decoding --picture=docs/pictures/decoding.svg"
    assert drawn == re.sub("<metadata>.*</metadata>", "", kept), again


def test_a_change_of_the_model_changes_the_diagrams(monkeypatch):
    whole = base(monkeypatch, model, num_decoder_layers=2, d_ff=1024)
    assert {"1 layers", "2 layers", "1,024 wide, 1.05 M", "add, layer-norm"} <= {*texts(whole)}
    pre = texts(base(monkeypatch, model, residual="pre", norm="rms", tied_embeddings="none"))
    assert {"rms-norm", "add", "by a matrix of its own"} <= {*pre}
    [row, *_] = calls.sublayers(calls.layers(calls.find(model.paper(), "encoder"))[0])
    assert [x and x.name for x in row] == ["rms_norm", "self_attention", None]
    inside = texts(base(monkeypatch, layer, num_heads=4, score="dot", feed_forward="gelu"))
    assert {"output 4 × 128 → 512", "softmax(dot) v", "weights [B, 4, T, S]", "gelu"} <= {*inside}
    heads = texts(base(monkeypatch, multi_head, num_heads=4))
    assert {"4 heads", "q·k / √128", "4 times, 128 wide"} <= {*heads}


def test_the_recurrent_model_is_the_tours():
    assert {"[B, 32], whatever the length", "weights of each step: [B, S]"} <= {
        *texts(seq2seq.draw())
    }


@pytest.mark.parametrize("file", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_read_by_everyone(file):
    """Letters of 11 pixels on a phone, a description, a dark scheme, and nothing from elsewhere."""
    svg = file.read_text("utf-8")
    root = ElementTree.fromstring(svg)
    assert root.find(f"{SVG}title").text
    assert len(root.find(f"{SVG}desc").text) > 100
    assert "prefers-color-scheme: dark" in svg
    assert drawing.NOTE * 390 / float(root.get("viewBox").split()[2]) >= 11
    assert re.findall("https?://[^\"']*", svg.replace(SVG[1:-1], "")) == []
    assert file.stat().st_size < 30_000


# Texts that touch each other, leave the picture, or are crossed by an arrow.
FAULTS = pathlib.Path(browser.__file__).with_name("touching_texts.js").read_text()


@pytest.mark.slow
def test_no_text_touches_another_or_is_crossed(tmp_path):
    with browser.chromium() as driver:
        for name, file in PICTURES.items():
            page = tmp_path / f"{name}.html"
            page.write_text(f"<meta charset=utf-8><body style='margin:0'>{file.read_text('utf-8')}")
            browser.open_page(driver, page, width=390)
            driver.execute_script("document.getAnimations().forEach((x) => x.cancel())")
            assert driver.execute_script(FAULTS) == [], name


OPACITIES = """
const of = (x) => getComputedStyle(document.querySelector(x)).opacity;
return [document.querySelector("output").textContent, of(".fades.b1"), of(".stays.b3")];
"""


@pytest.mark.slow
def test_one_steps_through_the_page_by_keys_and_buttons(tmp_path):
    from selenium.webdriver import ActionChains, Keys

    file = tmp_path / "decoding.html"
    file.write_text(decoding.page(PICTURES["decoding"].read_text("utf-8")), "utf-8")
    with browser.chromium() as driver:
        browser.open_page(driver, file, width=390)
        state = lambda: driver.execute_script(OPACITIES)
        browser.becomes(state, ["1 of 11: The source: all its tokens at once.", "0", "0"])
        ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
        browser.becomes(state, ["2 of 11: The encoder: each token attends to all.", "1", "0"])
        for _ in range(2):
            driver.find_element("css selector", "[aria-label=forward]").click()
        browser.becomes(state, ["4 of 11: It says I, with probability 0.97.", "0.15", "1"])
        ActionChains(driver).send_keys(Keys.ARROW_LEFT).perform()
        browser.becomes(state, ["3 of 11: The decoder reads <s>, and attends.", "1", "0"])
        assert browser.faults(driver) == browser.NONE
