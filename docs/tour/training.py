"""The paper's learning rate, and label smoothing."""

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture
from transformer.tasks.losses import cross_entropy
from transformer.training.optimizer import inverse_square_root

RATES = {
    "base (width 512, warm-up 4,000)": (512, 4000),
    "big (width 1024, warm-up 4,000)": (1024, 4000),
    "base, warm-up 8,000": (512, 8000),
}
CLASSES = 1000


def loss(p_gold: float, label_smoothing: float) -> tuple[float, float]:
    """Returns the loss where the right token has this probability, and its slope by the logit.

    All other tokens share the rest equally.
    """
    others = np.log((1 - p_gold) / (CLASSES - 1))
    logits_BTV = jnp.full((1, 1, CLASSES), others).at[0, 0, 0].set(np.log(p_gold))
    of_gold = lambda logit: cross_entropy(
        logits_BTV.at[0, 0, 0].set(logit),
        *(jnp.zeros((1, 1), int), jnp.ones((1, 1))),
        **{"label_smoothing": label_smoothing, "smoothed_over": "all_classes"},
    )["loss"]
    value, slope = jax.value_and_grad(of_gold)(logits_BTV[0, 0, 0])
    return float(value), float(slope)


def show() -> picture.Chart:
    """Returns the learning rate by step, and the loss by the probability of the right token."""
    steps = range(100, 20_001, 100)
    rates = [
        {
            "run": run,
            "step": step,
            "rate": float(inverse_square_root(step, d_model=width, warmup_steps=warmup, factor=1)),
        }
        for run, (width, warmup) in RATES.items()
        for step in steps
    ]
    for run in RATES:
        top = max((row for row in rates if row["run"] == run), key=lambda row: row["rate"])
        print(f"{run:34} highest at step {top['step']}: {top['rate']:.2e}")
    p_gold = np.array([*range(500, 990, 10), *range(990, 1000)]) / 1000
    curves = []
    for smoothing in (0.0, 0.1):
        points = [(float(p), *loss(p, smoothing)) for p in p_gold]
        name = f"smoothing {smoothing}"
        curves += [{"labels": name, "P": p, "loss": value} for p, value, _ in points]
        least = min(points, key=lambda point: point[1])
        print(f"{name:34} loss least at P(right token) = {least[0]:.2f}")
    line = {"mark": "line", "width": 300, "height": 200}
    quantity = lambda field, **more: {"field": field, "type": "quantitative", **more}
    legend = {"orient": "bottom", "columns": 1, "title": None}
    color = lambda field: {"field": field, "type": "nominal", "sort": None, "legend": legend}
    rate_axis = {
        "x": quantity("step", axis={"tickCount": 4}),
        "y": quantity("rate", axis={"format": ".1e"}),
    }
    zoomed = quantity("P", scale={"domain": [0.5, 1]}, title="P(right token)")
    return {
        "hconcat": [
            {
                **{"title": "Learning rate", "data": {"values": rates}, **line},
                "encoding": {**rate_axis, "color": color("run")},
            },
            {
                **{"title": "Loss of a token, in nats", "data": {"values": curves}, **line},
                "encoding": {"x": zoomed, "y": quantity("loss"), "color": color("labels")},
            },
        ],
        "resolve": {"scale": {"color": "independent"}},
    }
