"""The section on attention of a vision model: its weights on patches, and attention distances.

Each picture is an image below a table of numbers, one cell per patch. It is HTML with its own
script, because the columns of a facetted Vega-Lite plot do not wrap on a narrow screen.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from transformer.errors import UserError
from transformer.tasks import attention_weights
from transformer.tools.pages import page
from transformer.tools.pages.attention_view import MAX_NUMBERS
from transformer.tools.pages.page import Markup, Plot, Section, Table
from transformer.tools.report import inside, pictures
from transformer.tools.report.inside import Inside

IMAGES = 8

QUERY = {
    "token": "the class token, which is classified, attends to (the rest to 100 % is itself)",
    "mean": "the patches, whose mean is classified, attend to, on average",
}
ABOUT = (
    "Colour is attention: what {}. The strongest patch of an image has the full colour. Point at "
    "an image for the numbers, each patch's share in percent."
)
ABOUT_DISTANCES = (
    "A point is a head: how far from a patch are those that it attends to, in pixels, on average "
    "over attention, patches and these images. Attention to all patches alike would be on the line."
)


class Picture(NamedTuple):
    """An image, its label and prediction, and the attention to each patch."""

    title: str
    pixels: np.ndarray  # uint8 [height, width, channels]
    weights_LHP: np.ndarray  # of the patches, row by row


def section(loaded: Inside) -> Section | None:
    """Returns the attention over a few images of the test set.

    None for test sets without images, and for models without attention.
    """
    is_image = loaded.columns.get("input") == "image"
    if not (is_image and loaded.items and hasattr(loaded.model, "attention_weights")):
        return None
    from transformer.families.images import image_classification, images

    run = loaded.run
    chosen = inside.labelled(loaded, IMAGES)
    # Line numbers start at 1, image indices at 0.
    try:
        originals = pictures.read(run, run.evaluations[-1], [x - 1 for x in chosen.numbers])
    except UserError as error:
        return Section("Attention", [f"The images of the test set are not here: {error}"])
    # The images as evaluation saw them, uint8 [B, size, size, channels].
    view = image_classification.evaluation_view(run.config)
    pixels = np.stack([images.viewed(image, view, None) for image in originals])
    sown = attention_weights.batch_weights(loaded.params, {"images": pixels}, model=loaded.model)
    if "encoder" not in sown:
        return None
    weights_LBHTS = np.asarray(sown["encoder"])
    weights_LBHP = patch_weights(weights_LBHTS, loaded.model.pooling)
    titles = [f"{x['reference']}, predicted {x['output']}" for x in chosen.items]
    shown = [*map(Picture, titles, pixels, weights_LBHP.swapaxes(0, 1))]
    far = distance_plot(*distances(weights_LBHTS, view.size))
    return Section("Attention", [ABOUT.format(QUERY[loaded.model.pooling]), draw(shown), far])


def patch_weights(weights_LBHTS: np.ndarray, pooling: str) -> np.ndarray:
    """Returns the attention [L, B, H, P] of the classified vector to each patch, row by row."""
    # Query 0 is the class token; so is key 0, which is not a patch.
    if pooling == "token":
        return weights_LBHTS[:, :, :, 0, 1:]
    # The classified mean of all vectors attends to a patch with the mean weight of the queries.
    return weights_LBHTS.mean(axis=3)


def distances(weights_LBHTS: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    """Returns the attention distance of each head [L, H], and that of uniform attention.

    The attention distance is the distance in pixels from a patch to the patches that it attends to,
    in images of `size` x `size` pixels: the mean over attention, patches and images (Dosovitskiy et
    al. 2021, figure 7). The class token is left out because it has no place.
    """
    side = math.isqrt(weights_LBHTS.shape[-1])  # the token's key does not change it
    places_P2 = np.indices((side, side)).reshape(2, -1).T * size / side
    distance_PP = np.linalg.norm(places_P2[:, None] - places_P2, axis=-1)
    P = len(places_P2)
    of_patches = weights_LBHTS[..., -P:, -P:]
    # In a layer without attention, all weights and distances are 0.
    pixels_LBHT = np.einsum("LBHTS,TS->LBHT", of_patches, distance_PP)
    pixels_LBHT /= of_patches.sum(axis=-1).clip(min=1e-9)
    return pixels_LBHT.mean(axis=(1, 3)), float(distance_PP.mean())


def distance_plot(pixels_LH: np.ndarray, alike: float) -> Plot:
    """Returns a plot of what `distances` returns."""
    rows = [
        {"layer": layer + 1, "head": head + 1, "pixels": float(pixels)}
        for (layer, head), pixels in np.ndenumerate(pixels_LH)
        if pixels
    ]
    y = {"field": "pixels", "type": "quantitative", "title": "pixels", "scale": {"zero": True}}
    point = {"type": "point", "filled": True, "size": 50, "opacity": 0.7, "tooltip": True}
    line = {"data": {"values": [{"pixels": alike}]}, "mark": {"type": "rule", "strokeDash": [4, 4]}}
    spec = {
        "height": 200,
        "data": {"values": rows},
        "layer": [
            {"mark": point, "encoding": {"x": {"field": "layer", "type": "ordinal"}, "y": y}},
            {**line, "encoding": {"y": y}},
        ],
    }
    cells = [[row["layer"], row["head"], f"{row['pixels']:.1f}"] for row in rows]
    table = Table(["layer", "head", "pixels"], cells)
    return Plot("How far heads look", spec, ABOUT_DISTANCES, table)


def draw(shown: Sequence[Picture]) -> Markup:
    """Returns the pictures, with a choice of layer and head; fewer if the page grew too large."""
    # P patches, row by row, of a square grid with side sqrt(P).
    L, H, P = shown[0].weights_LHP.shape
    shown = shown[: max(1, MAX_NUMBERS // (L * H * P))]
    drawn, shares = [], []
    for title, pixels, weights_LHP in shown:
        # Pillow takes a grey image without a channel axis.
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        drawn.append((title, pictures.url(image)))
        shares.append(np.rint(1000 * weights_LHP).astype(int).tolist())
    return page.markup(
        "report/image_attention",
        layers=L,
        heads=["mean of all", *range(1, H + 1)] if H > 1 else [1],
        side=math.isqrt(P),
        pictures=drawn,
        shares=shares,  # in thousandths: [picture][layer][head][patch]
    )
