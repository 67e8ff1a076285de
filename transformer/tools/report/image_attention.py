"""The section on attention of a vision model: which patches of an image it reads.

Each picture is an image below a table of numbers, one cell a patch. It is HTML with a script of its
own because a facetted picture by Vega-Lite does not fold its columns on a narrow screen.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from transformer.errors import UserError
from transformer.tasks import attention_weights
from transformer.tools.pages import page
from transformer.tools.pages.page import Markup, Section
from transformer.tools.report import inside, pictures
from transformer.tools.report.attention_view import MOST_NUMBERS
from transformer.tools.report.inside import Inside

IMAGES = 8

WHOSE = {
    "token": "what the class token, which is classified, attends to",
    "mean": "what the patches, whose mean is classified, attend to, on average",
}
ABOUT = (
    "Colour is attention: {whose}. The strongest patch of an image has the full colour. Point at "
    "an image for the numbers, each patch's share in percent{rest}."
)


class Picture(NamedTuple):
    """An image, what it shows, and how much of the attention each patch gets."""

    title: str
    pixels: np.ndarray  # uint8 [height, width, channels]
    weights_LHP: np.ndarray  # of the patches, row by row


def section(this: Inside) -> Section | None:
    """Returns the attention over a few images of the test set; None if they are no images."""
    is_image = this.columns.get("input") == "image"
    if not (is_image and this.items and hasattr(this.model, "attention_weights")):
        return None
    this = inside.labelled(this, IMAGES)
    try:
        pixels = _pixels(this)
    except UserError as error:
        return Section("Attention", [f"The images of the test set are not here: {error}"])
    sown = attention_weights.of_batch(this.params, {"images": pixels}, model=this.model)
    weights_LBHP = of_patches(np.asarray(sown["encoder"]), this.model.pooling)
    shown = [
        Picture(f"{item['reference']}, predicted {item['output']}", pixels[i], weights_LBHP[:, i])
        for i, item in enumerate(this.items)
    ]
    rest = "; what is missing to 100 it gives itself" if this.model.pooling == "token" else ""
    about = ABOUT.format(whose=WHOSE[this.model.pooling], rest=rest)
    return Section("Attention", [about, view(shown)])


def of_patches(weights_LBHTS: np.ndarray, pooling: str) -> np.ndarray:
    """Returns the attention [L, B, H, P] of the classified vector to each patch, row by row."""
    if pooling == "token":  # query 0 is the class token, and so is key 0, which is no patch
        return weights_LBHTS[:, :, :, 0, 1:]
    return weights_LBHTS.mean(axis=3)  # of the queries


def _pixels(this: Inside) -> np.ndarray:
    """Returns what evaluation saw of the images, uint8 [B, size, size, channels]."""
    from transformer.families.images import image_classification, images

    view = image_classification.evaluation_view(this.run.config)
    lines = [number - 1 for number in this.numbers]
    originals = pictures.read(this.run, this.run.evaluations[-1], lines)
    return np.stack([images.viewed(image, view, None) for image in originals])


def view(shown: Sequence[Picture]) -> Markup:
    """Returns the pictures, with a choice of layer and head; fewer if the page grew too large."""
    count = max(1, min(len(shown), MOST_NUMBERS // shown[0].weights_LHP.size))
    # P patches, row by row, of a square grid of sqrt(P) a side.
    L, H, P = shown[0].weights_LHP.shape
    shown = shown[:count]
    shares = [np.rint(1000 * picture.weights_LHP).astype(int).tolist() for picture in shown]
    return page.markup(
        "report/image_attention",
        layers=L,
        heads=["mean of all", *range(1, H + 1)] if H > 1 else [1],
        side=math.isqrt(P),
        pictures=[
            (picture.title, pictures.url(_image(picture.pixels))) for picture in shown[:count]
        ],
        shares=shares,  # in thousandths: [picture][layer][head][patch]
    )


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
