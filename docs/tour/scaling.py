"""Dot products grow with the width of the vectors, and a softmax of large ones is flat."""

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture
from transformer.models import boxes
from transformer.models.attention import attend

WIDTHS = (4, 16, 64, 256, 1024)
QUERIES, KEYS = 1000, 32
SCORES = {"dot": "q · k", "scaled_dot": "q · k / √width"}


def measure(kind: str, width: int) -> tuple[float, float, float]:
    """Returns the variance of the scores, and the softmax's mean entropy and mean gradient.

    The gradient is the Jacobian of the weights by the scores, by its Frobenius norm.
    """
    random = np.random.default_rng(width)
    q_BTHK = random.standard_normal((1, QUERIES, 1, width), np.float32)
    k_BHKS = random.standard_normal((1, 1, width, KEYS), np.float32)
    scores_BHTS = boxes.part("score", kind)().apply({}, jnp.array(q_BTHK), jnp.array(k_BHKS))

    def weights(scores_BHTS: jax.Array) -> jax.Array:
        mask_BTS, values_BHSC = jnp.ones((1, 1, KEYS), bool), jnp.ones((1, 1, KEYS, 1))
        return attend(scores_BHTS, mask_BTS, values_BHSC, dropout=lambda x: x)[1]

    weights_TS = weights(scores_BHTS)[0, 0]
    entropy_T = jax.scipy.special.entr(weights_TS).sum(axis=-1)
    of_one = lambda scores_S: weights(scores_S[None, None, None])[0, 0, 0]
    jacobians_TSS = jax.vmap(jax.jacobian(of_one))(scores_BHTS[0, 0])
    norm_T = jnp.sqrt((jacobians_TSS**2).sum(axis=(1, 2)))
    return float(scores_BHTS.var()), float(entropy_T.mean()), float(norm_T.mean())


def show() -> picture.Chart:
    """Returns the three measures by width, with and without the scaling."""
    rows = []
    print(f"{'score':18}{'width':>6}{'variance':>12}{'entropy':>12}{'gradient':>12}")
    for kind, name in SCORES.items():
        for width in WIDTHS:
            variance, entropy, gradient = measure(kind, width)
            print(f"{name:18}{width:6}{variance:12.2f}{entropy:12.3f}{gradient:12.4f}")
            measures = {"variance": variance, "entropy": entropy, "gradient": gradient}
            rows.append({"score": name, "width": width, **measures})
    log = {"type": "log", "base": 2}
    axis = {"values": WIDTHS, "format": "d"}
    x = {"field": "width", "type": "quantitative", "scale": log, "axis": axis}
    titles = {
        "variance": ("Variance of the scores", {"type": "log"}),
        "entropy": ("Entropy of the weights (nats)", {"domain": [0, 3.5]}),
        "gradient": ("Gradient of the softmax", {}),
    }
    panels = [
        {
            **{"title": title, "width": 190, "height": 180},
            "mark": {"type": "line", "point": True},
            "encoding": {
                "x": x,
                "y": {"field": field, "type": "quantitative", "scale": scale, "title": None},
                "color": {"field": "score", "type": "nominal", "sort": None},
            },
        }
        for field, (title, scale) in titles.items()
    ]
    return {"data": {"values": rows}, "hconcat": panels, "spacing": 40}
