"""Attention over images: whose attention it is, and over which pixels."""

import base64
import re

import numpy as np
import pytest
from families.images.miniature_images import decoded
from helpers import tiny
from tools.pages import browser
from tools.report import insides, photographs

from transformer.families.images.vision import VisionTransformer
from transformer.models import fields
from transformer.tasks import attention_weights
from transformer.tools.pages import page
from transformer.tools.report import image_attention

SIZE = 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A function of the pooling: the `Inside` of a model of 3 x 3 patches, and six images."""
    run, pixels, _ = photographs.photographed(tmp_path_factory.mktemp("images"), 6, SIZE)
    roles = ("input", "reference", "output")
    lines = zip(*run.evaluations[-1].columns(*roles), strict=True)
    items = [dict(zip(roles, line, strict=True)) for line in lines]

    def make(pooling):
        keys = run.config.model.to_dict() | {"d_model": 8, "d_ff": 12, "num_heads": 2}
        keys |= {"num_layers": 2, "patch_size": 4, "mean": (0.5,), "std": (0.5,)}
        keys |= {"pooling": pooling, "num_classes": 3, "image_size": SIZE}
        model = fields.make(VisionTransformer, **keys)
        params = tiny.parameters(model, {"images": pixels[..., None]})
        return insides.inside(run, model, params, items), pixels

    return make


@pytest.mark.parametrize("pooling", ["token", "mean"])
def test_the_attention_is_of_what_is_classified(runs, pooling):
    loaded, pixels = runs(pooling)
    section = image_attention.section(loaded)
    shares = np.array(insides.data_of(section.parts[1]))  # [B, L, H, P]
    assert len(section.parts[2].table.rows) == 2 * 2  # layers and heads
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", section.parts[1].html)
    urls = re.findall(r'src="data:image/png;base64,(.*?)"', section.parts[1].html)
    images = [decoded(base64.b64decode(url)) for url in urls]
    assert len(images) == len(titles) == len(shares) == 6
    sown = attention_weights.batch_weights(
        loaded.params, {"images": pixels[..., None]}, model=loaded.model
    )
    weights_LBHTS = np.asarray(sown["encoder"])
    for image, title, weights in zip(images, titles, shares, strict=True):
        [i] = np.flatnonzero((pixels == image[::8, ::8]).all(axis=(1, 2)))  # 12 pixels to 96
        assert title == f"{loaded.items[i]['reference']}, predicted 1"
        if pooling == "token":
            expected_LHP = weights_LBHTS[:, i, :, 0, 1:]
        else:
            expected_LHP = weights_LBHTS[:, i].mean(axis=2)
        np.testing.assert_allclose(weights / 1000, expected_LHP, atol=6e-4)


def test_heads_look_as_far_as_the_patches_are_that_they_attend_to():
    """One looks at its own patch, one at the class token, too, one at the patch mirrored in the
    middle column, one nowhere in particular; patches are 4 pixels apart."""
    own_PP, mirrored_PP = np.eye(9), np.eye(9).reshape(3, 3, 9)[:, ::-1].reshape(9, 9)
    shares_HPP = np.stack([own_PP, own_PP / 2, mirrored_PP, np.full((9, 9), 1 / 9)])
    weights_LBHTS = np.zeros((2, 5, 4, 10, 10))
    weights_LBHTS[0, :, :, 1:, 1:], weights_LBHTS[0, :, 1, :, 0] = shares_HPP, 0.5
    pixels_LH, alike = image_attention.distances(weights_LBHTS, SIZE)
    np.testing.assert_allclose(pixels_LH, [[0, 0, (8 + 0 + 8) / 3, alike], [0] * 4])
    places = [(4 * i, 4 * j) for i in range(3) for j in range(3)]
    apart = [((a - c) ** 2 + (b - d) ** 2) ** 0.5 for a, b in places for c, d in places]
    assert alike == pytest.approx(sum(apart) / 81)


def test_images_that_are_gone_are_said(runs):
    loaded, _ = runs("mean")
    config = loaded.run.config.copy_and_resolve_references()
    config.data.directory = "/nowhere"
    section = image_attention.section(loaded._replace(run=loaded.run._replace(config=config)))
    assert "not here" in section.parts[0]


@pytest.mark.slow
def test_a_browser_colours_the_patches(tmp_path):
    weights_LHP = np.zeros((2, 2, 4))
    weights_LHP[1, 0], weights_LHP[1, 1] = [0.5, 0.5, 0, 0], [0, 0, 0.25, 0.25]
    picture = image_attention.Picture("a & b", np.full((4, 4, 3), 90, np.uint8), weights_LHP)
    file = tmp_path / "page.html"
    file.write_text(page.html("x", [page.Section("a", [image_attention.draw([picture] * 3)])]))
    with browser.chromium() as driver:
        browser.open_page(driver, file, width=browser.WIDTHS["phone"])
        cells = "[...document.querySelectorAll('figure:nth-of-type(3) td')]"
        text = lambda: driver.execute_script(f"return {cells}.map((x) => x.textContent)")
        browser.becomes(text, ["25", "25", "13", "13"])
        driver.find_elements("css selector", "select")[1].send_keys("2")
        browser.becomes(text, ["0.0", "0.0", "25", "25"])
        assert browser.faults(driver) == browser.NONE
