"""Residual connections and normalisation carry the gradient through many layers."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from docs.tour import picture, tiny
from transformer.models.layers import Layer
from transformer.tasks import losses
from transformer.tasks.task import init_params

LAYERS, LENGTH, VOCABULARY = 12, 12, 30
KINDS = {
    "post-norm (the paper)": {"residual": "post", "final_norm": False},
    "pre-norm": {"residual": "pre", "final_norm": True},
    "no residuals": {"residual": "none", "final_norm": False},
    "no residuals, no norm": {"residual": "none", "norm": "none"},
    "no norm": {"residual": "post", "final_norm": False, "norm": "none"},
}


def measure(**changes: object) -> tuple[list[float], list[float]]:
    """Returns the gradient norm of each layer's params, and how alike its outputs are.

    The latter is the cosine between the vectors of two positions of a text, on average.
    """
    model = tiny.language_model(VOCABULARY, num_layers=LAYERS, **changes)
    random = np.random.default_rng(0)
    tokens, targets = random.integers(4, VOCABULARY, (2, 8, LENGTH), np.int32)
    positions = np.broadcast_to(np.arange(LENGTH, dtype=np.int32), tokens.shape)
    inputs = {"tokens": tokens, "positions": positions, "segments": np.ones_like(tokens)}
    batch = {"inputs": inputs, "targets": targets, "weights": np.ones(targets.shape, np.float32)}
    loss = functools.partial(losses.token_loss, model=model, **tiny.LOSS)

    def mean_loss(params: tiny.Tree) -> jax.Array:
        return loss(params, batch, rng=jax.random.key(1))["loss"] / targets.size

    params = init_params(model, batch, jax.random.key(0))
    gradient = jax.grad(mean_loss)(params)["decoder"]
    outputs = {"capture_intermediates": lambda module, _: isinstance(module, Layer)}
    _, state = model.apply({"params": params}, **inputs, train=False, **outputs)
    norms, cosines = [], []
    for layer in (f"layers_{i}" for i in range(LAYERS)):
        norms.append(float(optax.tree.norm(gradient[layer])))
        x_BTD, _ = state["intermediates"]["decoder"][layer]["__call__"][0]
        unit_BTD = x_BTD / jnp.linalg.norm(x_BTD, axis=-1, keepdims=True)
        cosine_BTT = jnp.einsum("BTD,BSD->BTS", unit_BTD, unit_BTD)
        cosines.append(float(cosine_BTT[:, *np.triu_indices(LENGTH, 1)].mean()))
    return norms, cosines


def show() -> picture.Chart:
    """Returns both measures by layer, before the first update, for each kind of layer."""
    rows = []
    print(f"{'layer':24}" + "".join(f"{i:18}" for i in (1, LAYERS // 2, LAYERS)))
    for kind, changes in KINDS.items():
        norms, cosines = measure(**changes)
        chosen = [(norms[i], cosines[i]) for i in (0, LAYERS // 2 - 1, LAYERS - 1)]
        print(f"{kind:24}" + "".join(f"{norm:12.1e}{cosine:6.2f}" for norm, cosine in chosen))
        layers = zip(itertools.count(1), np.log10(norms).tolist(), cosines)
        rows += [{"kind": kind, "layer": i, "log": log, "cosine": x} for i, log, x in layers]
    norm, cosine = "Gradient norm of a layer, log10", "Cosine between two positions"
    mark = {"type": "line", "point": True}
    charts = [
        {
            **{"title": title, "width": 260, "height": 220, "mark": mark},
            "encoding": {
                "x": {"field": "layer", "type": "quantitative"},
                "y": {"field": y, "type": "quantitative", "axis": {"grid": True, "title": None}},
                "color": {"field": "kind", "type": "nominal", "sort": None, "title": None},
            },
        }
        for y, title in (("log", norm), ("cosine", cosine))
    ]
    return {"data": {"values": rows}, "hconcat": charts, "spacing": 40}
