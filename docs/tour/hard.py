"""Hard attention looks at one place, and three ways to learn which."""

import functools
from collections.abc import Callable, Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.models.attention import ScaledDot, attend
from transformer.models.positions import sinusoids

LETTERS, LENGTH, D, STEPS, EVERY = 10, 8, 32, 240, 12


def argmax(weights_BHTS: jax.Array, key: jax.Array) -> jax.Array:
    """Returns 1 for the largest weight and 0 for the others; its gradient is zero everywhere."""
    return jax.nn.one_hot(weights_BHTS.argmax(axis=-1), LENGTH)


def straight_through(weights_BHTS: jax.Array, key: jax.Array) -> jax.Array:
    """Returns `argmax`, with the gradient of the weights themselves."""
    chosen_BHTS = argmax(weights_BHTS, key)
    return chosen_BHTS + weights_BHTS - jax.lax.stop_gradient(weights_BHTS)


def sampled(weights_BHTS: jax.Array, key: jax.Array) -> jax.Array:
    """Returns 1 for a place drawn with these probabilities."""
    return jax.nn.one_hot(jax.random.categorical(key, jnp.log(weights_BHTS)), LENGTH)


CHOICES = {
    "soft": lambda weights_BHTS, key: weights_BHTS,
    "hard, argmax": argmax,
    "hard, straight-through": straight_through,
    "hard, REINFORCE": sampled,
}


class Backwards(nn.Module):
    """Says a row of letters from its end; the query of each position is the position alone."""

    choose: Callable

    @nn.compact
    def __call__(self, ids_BT: jax.Array, *, train: bool) -> jax.Array:
        positions_BT = jnp.broadcast_to(jnp.arange(LENGTH), ids_BT.shape)
        places_BTD = sinusoids(positions_BT, D)
        values_BSC = nn.Embed(LETTERS, D)(ids_BT)
        q_BTHK = nn.Dense(D)(places_BTD)[:, :, None]
        k_BHKS = nn.Dense(D)(values_BSC + places_BTD)[:, None].swapaxes(2, 3)
        choose = functools.partial(self.choose, key=self.make_rng("params"))
        mask_BTS, scores_BHTS = jnp.ones((1, 1, LENGTH), bool), ScaledDot()(q_BTHK, k_BHKS)
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, values_BSC[:, None], choose)
        self.sow("intermediates", "attention", (weights_BHTS[:, 0], choose(weights_BHTS)[:, 0]))
        return nn.Dense(LETTERS)(context_BTHC[:, :, 0])


def batches() -> Iterator[dict]:
    random = np.random.default_rng(0)
    while True:
        yield {"inputs": {"ids_BT": random.integers(0, LETTERS, (64, LENGTH)).astype(np.int32)}}


def forward(params: tiny.Tree, inputs: dict, rng: jax.Array, model: nn.Module) -> tuple:
    """Returns log-probabilities of all letters, the weights, and what was chosen by them."""
    options = {"rngs": {"params": rng}, "mutable": ["intermediates"]}
    logits_BTV, sown = model.apply({"params": params}, **inputs, train=True, **options)
    return nn.log_softmax(logits_BTV), *sown["intermediates"]["attention"][0]


def loss(params: tiny.Tree, batch: dict, *, rng: jax.Array, model: nn.Module) -> dict:
    """Returns the sums of the loss and of the letters said right, and their number."""
    logs_BTV, weights_BTS, chosen_BTS = forward(params, batch["inputs"], rng, model)
    targets_BT = batch["inputs"]["ids_BT"][:, ::-1]
    gains_BT = jnp.take_along_axis(logs_BTV, targets_BT[..., None], axis=-1)[..., 0]
    # REINFORCE: what gained more than usual becomes likelier.
    surplus_BT = jax.lax.stop_gradient(gains_BT - gains_BT.mean(axis=0))
    choice_BT = surplus_BT * jnp.log((weights_BTS * chosen_BTS).sum(axis=-1))
    objective_BT = gains_BT + choice_BT if model.choose is sampled else gains_BT
    right_BT = logs_BTV.argmax(axis=-1) == targets_BT
    weight = jnp.float32(right_BT.size)
    return {"loss": -objective_BT.sum(), "weight": weight, "right": right_BT.sum()}


def show() -> picture.Chart:
    """Trains each kind; returns what it says right while it learns, and where it looks at last."""
    curve, maps, ends = [], [], range(EVERY, STEPS + 1, EVERY)
    print(f"{'step':24}" + "".join(f"{x:6}" for x in ends[1::3]))
    for name, choose in CHOICES.items():
        learn = functools.partial(loss, model=(model := Backwards(choose)))
        params, history = tiny.train(model, batches(), steps=STEPS, rate=1e-2, loss=learn)
        right = [float(np.mean([x["right"] for x in history[end - EVERY : end]])) for end in ends]
        print(f"{name:24}" + "".join(f"{x:6.0%}" for x in right[1::3]))
        curve += [{"kind": name, "step": x, "right": y} for x, y in zip(ends, right, strict=True)]
        _, weights_BTS, _ = forward(params, next(batches())["inputs"], jax.random.key(0), model)
        cells = np.ndenumerate(weights_BTS.mean(axis=0))
        rows = [{"said": t + 1, "place": s + 1, "weight": float(w)} for (t, s), w in cells]
        maps.append(weights_map(name, rows))
    axis = {"axis": {"format": ".0%", "grid": True}, "scale": {"domain": [0, 1]}, "title": None}
    lines = {
        "title": "A row of letters, said from its end: share said right",
        **{"width": 560, "height": 180, "data": {"values": curve}, "mark": "line"},
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "title": "step of training"},
            "y": {"field": "right", "type": "quantitative", **axis},
            "color": {"field": "kind", "type": "nominal", "sort": None, "title": "attention"},
        },
    }
    return {"vconcat": [lines, {"hconcat": maps}]}


def weights_map(title: str, rows: list[dict]) -> picture.Chart:
    """Returns a map of weights: a row for each letter that is said, a column for each place."""
    axis = {"type": "ordinal", "axis": {"labelAngle": 0, "ticks": False}}
    opacity = {"scale": {"domain": [0, 1], "range": [0, 1]}, "legend": None}
    return {
        "title": title,
        **{"width": 130, "height": 130, "data": {"values": rows}},
        "mark": {"type": "rect", "color": picture.BLUE},
        "encoding": {
            "x": {"field": "place", **axis},
            "y": {"field": "said", **axis},
            "opacity": {"field": "weight", "type": "quantitative", **opacity},
        },
    }
