"""Residual connections keep the position: what a linear map reads of it after each layer."""

import functools
import itertools

import flax.linen as nn
import jax
import numpy as np

from docs.tour import order, picture, tiny
from transformer.models.layers import Layer
from transformer.models.positions import Positions
from transformer.tasks.task import init_params

NOUNS = [1, 4]  # their positions in "the dog sees the cat"
LAYERS, STEPS = 3, 300
KINDS = {
    "pre-norm": {"residual": "pre", "final_norm": True},
    "post-norm (the paper)": {},
    "no residuals": {"residual": "none"},
}
TRAINED = ("pre-norm", "post-norm (the paper)")
BEFORE, AFTER = "before training", "after training"


@functools.partial(jax.jit, static_argnames="model")
def vectors(params: tiny.Tree, inputs: dict, *, model: nn.Module) -> list[jax.Array]:
    """Returns the encoder's vectors of the nouns [N, 2, D], below the layers and after each."""
    source = {name: x for name, x in inputs.items() if name.startswith("source")}
    kept = lambda module, _: isinstance(module, Positions | Layer)
    options = {"train": False, "method": "encode", "capture_intermediates": kept}
    _, state = model.apply({"params": params}, **source, **options)
    below, layers = (state["intermediates"][name] for name in ("source_positions", "encoder"))
    outputs = [layers[name]["__call__"][0][0] for name in sorted(layers)]
    return [x_NSD[:, NOUNS] for x_NSD in (below["__call__"][0], *outputs)]


def explained(x_N2D: np.ndarray, is_new: np.ndarray) -> float:
    """Returns R² of the position as a linear map of the vector, in sentences it was not fitted to.

    1 says that the map tells the first noun from the second, 0 that it knows nothing of them.
    """
    known_MD = x_N2D[~is_new].reshape(-1, x_N2D.shape[-1])
    mean_D, deviation_D = known_MD.mean(axis=0), known_MD.std(axis=0)
    known_MD, new_N2D = (known_MD - mean_D) / deviation_D, (x_N2D[is_new] - mean_D) / deviation_D
    # The positions are called -1 and 1, so that their mean is 0 and their variance 1.
    target_M = np.tile([-1, 1], len(known_MD) // 2)
    penalised_DD = known_MD.T @ known_MD + np.eye(len(mean_D))  # ridge regression
    map_D = np.linalg.solve(penalised_DD, known_MD.T @ target_M)
    return float(1 - np.mean((new_N2D @ map_D - [-1, 1]) ** 2))


def show() -> picture.Chart:
    """Returns what is left of a noun's position by layer, before and after training."""
    sentences, is_new = [pair[::-1] for pair in order.sentence_pairs()], order.held_out()
    pieces, rows = tiny.vocabulary(sentences, size=408), []
    every = tiny.batch_of(pieces, sentences)
    known, new = (
        tiny.batch_of(pieces, [*itertools.compress(sentences, chosen)])
        for chosen in (~is_new, is_new)
    )
    print(f"{'R² after layer':38}" + "".join(f"{i:6}" for i in range(LAYERS + 1)))
    sizes = {"num_layers": LAYERS, "num_decoder_layers": 1}
    build = functools.partial(tiny.transformer, len(pieces), **sizes)
    models = {kind: build(**changes) for kind, changes in KINDS.items()}
    # All kinds begin with the same params; pre-norm has a last normalisation besides.
    untrained = init_params(models["pre-norm"], known, jax.random.key(0))

    def measure(kind: str, when: str, params: tiny.Tree, about: str = "") -> None:
        outputs = vectors(params, every["inputs"], model=models[kind])
        shares = [explained(np.asarray(x_N2D), is_new) for x_N2D in outputs]
        print(f"{kind:22}{when:16}" + "".join(f"{x:6.2f}" for x in shares) + about)
        points = enumerate(shares)
        rows.extend({"kind": kind, "when": when, "layer": i, "R²": x} for i, x in points)

    for kind in KINDS:
        measure(kind, BEFORE, untrained)
    for kind in TRAINED:
        trained, right = order.learn(models[kind], known, new, steps=STEPS)
        measure(kind, AFTER, trained, f"  {right:.0%} translated right")
    layer = {"axis": {"values": [*range(LAYERS + 1)], "format": "d"}, "title": "after layer"}
    place = {"type": "quantitative", "axis": {"grid": True}, "title": None}
    return {
        "title": "R² of a noun's position, by a linear map of its vector",
        "data": {"values": rows},
        **{"width": 230, "height": 200, "mark": {"type": "line", "point": True}},
        "encoding": {
            "x": {"field": "layer", "type": "quantitative", **layer},
            "y": {"field": "R²", **place},
            "color": {"field": "kind", "sort": None, "title": None},
            "column": {"field": "when", "sort": [BEFORE, AFTER], "title": None},
        },
    }
