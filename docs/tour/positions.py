"""Attention does not know the order of its tokens; positions tell it."""

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.data import pairs
from transformer.models.positions import sinusoids
from transformer.tasks.task import init_params

LENGTH, VOCABULARY, WIDTH = 10, 30, 32


def permuted(kind: str) -> float:
    """Returns how far encode(permuted source) is from encode(source), permuted, at most."""
    model = tiny.transformer(VOCABULARY, positions=kind, num_layers=2)
    random = np.random.default_rng(0)
    source = jnp.array(random.integers(4, VOCABULARY, (1, LENGTH)))
    order = random.permutation(LENGTH)
    example = {"inputs": pairs.inputs_of_single_pairs(source, source)}
    params = init_params(model, example, jax.random.key(0))
    encode = lambda ids: model.apply(
        {"params": params}, ids, *pairs.positions_and_segments(ids), train=False, method="encode"
    )
    return float(jnp.abs(encode(source[:, order]) - encode(source)[:, order]).max())


def show() -> picture.Chart:
    """Prints what a permutation does; returns the picture of the sinusoids."""
    for name, kind in {"none": "none", "sinusoids": "interleaved"}.items():
        print(f"positions {name:12} permuted input, permuted output: apart by {permuted(kind):.1e}")
    return chart()


def chart() -> picture.Chart:
    """Returns the sinusoids, and the products between them."""
    waves_PD = np.asarray(sinusoids(jnp.arange(WIDTH)[None], 32)[0])
    near_PP = waves_PD @ waves_PD.T / 16
    color = {"field": "value", "type": "quantitative", "title": None}
    colours = [picture.ORANGE, "white", picture.BLUE]
    scale = {"range": colours, "domain": [-1, 0, 1], "interpolate": "rgb"}
    charts = []
    for title, array, columns in (
        ("PE(position, component)", waves_PD, "component"),
        ("PE(position) · PE(other) / 16", near_PP, "other position"),
    ):
        axis = {"type": "ordinal", "axis": {"values": [*range(0, WIDTH, 8)], "labelAngle": 0}}
        numbers = [*range(array.shape[1])]
        rows = [
            {"position": i, columns: numbers, "value": row} for i, row in enumerate(array.tolist())
        ]
        charts.append(
            {
                **{"title": title, "mark": "rect"},
                **{"width": 8 * array.shape[1], "height": 8 * WIDTH},
                "data": {"values": rows},
                "transform": [{"flatten": [columns, "value"]}],
                "encoding": {
                    "x": {"field": columns, **axis},
                    "y": {"field": "position", **axis},
                    "color": {**color, "scale": scale},
                },
            }
        )
    return {"hconcat": charts}
