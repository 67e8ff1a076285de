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
GRID = SIZE // PATCH  # patches a side


def images(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns noisy images of one shape each, uint8 [count, SIZE, SIZE, 1], which shape it is, and
    which pixels are the shape's."""
    labels = np.arange(count, dtype=np.int32) % len(SHAPES)
    x, y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    pixels = random.normal(60, 25, (count, SIZE, SIZE))
    drawn = np.zeros(pixels.shape, bool)
    for i, label in enumerate(labels):
        (across, down), radius = random.uniform(5, SIZE - 6, 2), random.uniform(3.5, 5)
        dx, dy = abs(x - across), abs(y - down)
        far = np.hypot(dx, dy)
        shapes = {
            "disc": far < radius,
            "square": np.maximum(dx, dy) < radius * 0.8,
            "cross": (np.minimum(dx, dy) < 1) & (np.maximum(dx, dy) < radius),
            "ring": abs(far - radius) < 1,
        }
        drawn[i] = shapes[SHAPES[label]]
    pixels[drawn] += 130
    return pixels.clip(0, 255).astype(np.uint8)[..., None], labels, drawn


def batches() -> Iterator[dict]:
    for step in itertools.count():
        pixels, labels, _ = images(np.random.default_rng((0, step)), ROWS)
        weights = np.ones(ROWS, np.float32)
        yield {"inputs": {"images": pixels}, "targets": labels, "weights": weights}


def show() -> picture.Chart:
    """Trains; returns images, and how much the class token looks at each of their patches."""
    model = tiny.vision_transformer(len(SHAPES), SIZE, PATCH)
    loss = functools.partial(classifiers.training_loss, model=model, label_smoothing=0.0)
    params, _ = tiny.train(model, batches(), steps=300, loss=loss)

    pixels, labels, drawn = images(np.random.default_rng(1), 400)
    p_BV = classifiers.probabilities(params, {"images": pixels}, model=model)
    accuracy = float((np.asarray(p_BV).argmax(-1) == labels).mean())
    print(f"{GRID**2} patches an image; {accuracy:.1%} of {len(labels)} new images right\n")
    weights = attention_weights.batch_weights(params, {"images": pixels}, model=model)["encoder"]
    # From the class token, which is position 0, to the patches: the last layer, mean over heads.
    looks_BS = np.asarray(weights)[-1, :, :, 0, 1:].mean(axis=1)
    looks_BPP = looks_BS.reshape(-1, GRID, GRID)
    touched_BPP = drawn.reshape(-1, GRID, PATCH, GRID, PATCH).any(axis=(2, 4))
    print(f"{'patches that it touches':24}{'of all':>8}{'of the attention':>18}")
    for kind, shape in (*enumerate(SHAPES), (labels, "all")):
        of_kind = labels == kind
        area, share = touched_BPP[of_kind].mean(), (looks_BPP * touched_BPP)[of_kind].sum()
        print(f"{shape:24}{area:8.0%}{share / of_kind.sum():18.0%}")
    panels = zip(SHAPES, pixels[..., 0] / 255, looks_BPP, strict=False)  # the first of each shape
    title = "In orange: the class token's attention to each patch"
    return {"title": title, "hconcat": [panel(*each) for each in panels]}


def panel(title: str, image_HW: np.ndarray, looks_PP: np.ndarray) -> picture.Chart:
    """Returns an image with the attention to its patches over it."""
    grey = {"range": ["black", "white"], "domain": [0, 1]}
    opacity = {"range": [0, 0.8], "domain": [0, 0.4]}
    layers = [squares(image_HW, "color", grey), squares(looks_PP, "fillOpacity", opacity)]
    return {"title": title, "width": 8 * SIZE, "height": 8 * SIZE, "layer": layers}


def squares(array_HW: np.ndarray, channel: str, scale: dict) -> picture.Chart:
    """Returns a square for each number, which this channel shows."""
    side = SIZE // len(array_HW)
    rows = [
        {"x": j * side, "y": i * side, "v": round(float(v), 2)}
        for (i, j), v in np.ndenumerate(array_HW)
    ]
    place = {"type": "quantitative", "axis": None}
    return {
        "data": {"values": rows},
        "transform": [
            {"calculate": f"datum.x + {side}", "as": "right"},
            {"calculate": f"datum.y + {side}", "as": "below"},
        ],
        "mark": {"type": "rect", "color": picture.ORANGE},
        "encoding": {
            "x": {"field": "x", **place, "scale": {"domain": [0, SIZE], "nice": False}},
            "x2": {"field": "right"},
            "y": {"field": "y", **place, "scale": {"domain": [SIZE, 0], "nice": False}},
            "y2": {"field": "below"},
            channel: {"field": "v", "type": "quantitative", "legend": None, "scale": scale},
        },
    }
