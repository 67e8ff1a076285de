"""The Vision Transformer: an image is a sentence of patches."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from docs.tour import picture, tiny
from transformer.families.labels import classifiers
from transformer.tasks import attention_weights

SHAPES = ("disc", "square", "cross", "ring")
SIZE, PATCH, ROWS = 20, 4, 64


def images(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns noisy images of one shape each, uint8 [count, SIZE, SIZE, 1], and which shape."""
    labels = np.arange(count) % len(SHAPES)
    x, y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    pixels = random.normal(60, 25, (count, SIZE, SIZE))
    for image, label in zip(pixels, labels, strict=True):
        (across, down), radius = random.uniform(5, SIZE - 6, 2), random.uniform(3.5, 5)
        dx, dy = abs(x - across), abs(y - down)
        far = np.hypot(dx, dy)
        drawn = {
            "disc": far < radius,
            "square": np.maximum(dx, dy) < radius * 0.8,
            "cross": (np.minimum(dx, dy) < 1) & (np.maximum(dx, dy) < radius),
            "ring": abs(far - radius) < 1,
        }
        image[drawn[SHAPES[label]]] += 130
    return pixels.clip(0, 255).astype(np.uint8)[..., None], labels.astype(np.int32)


def batches() -> Iterator[dict]:
    for step in itertools.count():
        pixels, labels = images(np.random.default_rng((0, step)), ROWS)
        weights = np.ones(ROWS, np.float32)
        yield {"inputs": {"images": pixels}, "targets": labels, "weights": weights}


def show() -> picture.Chart:
    """Trains; returns images, and how much the class token looks at each of their patches."""
    model = tiny.vision_transformer(len(SHAPES), SIZE, PATCH)
    loss = functools.partial(classifiers.training_loss, model=model, label_smoothing=0.0)
    params, _ = tiny.train(model, batches(), steps=300, loss=loss)

    pixels, labels = images(np.random.default_rng(1), 400)
    p_BV = classifiers.probabilities(params, {"images": pixels}, model=model)
    accuracy = float((np.asarray(p_BV).argmax(-1) == labels).mean())
    print(f"{(SIZE // PATCH) ** 2} patches an image; {accuracy:.1%} of 400 new images right\n")
    shown = {"images": pixels[: len(SHAPES)]}
    weights = attention_weights.batch_weights(params, shown, model=model)["encoder"]
    # From the class token, which is position 0, to the patches: the last layer, mean over heads.
    looks_BS = np.asarray(weights)[-1, :, :, 0, 1:].mean(axis=1)
    looks_BPP = looks_BS.reshape(len(SHAPES), SIZE // PATCH, SIZE // PATCH)
    print(f"attention of the class token to the {SHAPES[0]}\n{looks_BPP[0].round(2)}")
    lines = [
        squares(pixels[: len(SHAPES), ..., 0] / 255, "greys", [1, 0], SHAPES),
        squares(looks_BPP, "blues", [0, 0.3], ["attention"] * len(SHAPES)),
    ]
    return {"vconcat": lines, "resolve": {"scale": {"color": "independent"}}}


def squares(array_BHW: np.ndarray, scheme: str, domain: list, titles: list) -> picture.Chart:
    """Returns a row of images, a square for each number."""
    charts = []
    for title, array_HW in zip(titles, array_BHW.astype(float), strict=True):
        rows = [{"x": j, "y": i, "v": round(v, 3)} for (i, j), v in np.ndenumerate(array_HW)]
        axis = {"type": "ordinal", "axis": None}
        scale = {"scheme": scheme, "domain": domain, "clamp": True}
        color = {"field": "v", "type": "quantitative", "scale": scale, "legend": None}
        encoding = {"x": {"field": "x", **axis}, "y": {"field": "y", **axis}, "color": color}
        side = {"width": 140, "height": 140, "title": title, "mark": "rect"}
        charts.append({**side, "data": {"values": rows}, "encoding": encoding})
    return {"hconcat": charts}
