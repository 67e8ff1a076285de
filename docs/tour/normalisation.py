"""Layer normalisation, and why not batch: whose mean and variance an output depends on."""

import functools
import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import batch_norm
from docs.tour import picture
from transformer.tasks.losses import token_nats

WIDTH, ROWS, LENGTH, STEPS = 32, 32, 24, 250
# In eight parts with statistics of their own, 32 rows are normalised as batches of 4 are.
KINDS = {"none": ("none", 1), "layer": ("layer", 1)}
KINDS |= {"batch of 32": ("batch", 1), "batch of 4": ("batch", 8)}
PARTS = {"1": slice(1), "2 to 24": slice(1, LENGTH), "25 to 48": slice(LENGTH, 2 * LENGTH)}


@functools.partial(jax.jit, static_argnums=0)
def normalised(norm: nn.Module, x: jax.Array) -> jax.Array:
    """Returns what a normalisation makes of x in training, before its first update."""
    return norm.init_with_output(jax.random.key(0), x)[0]


batch = functools.partial(normalised, nn.BatchNorm(use_running_average=False))
layer = functools.partial(normalised, nn.LayerNorm())
AXES = {"batch": batch, "batch, by position": jax.vmap(batch, 1, 1), "layer": layer}


def moved(kind: str, size: int) -> float:
    """Returns how far outputs are apart in batches of this size and in one of all, relatively."""
    x_ND = jax.random.normal(jax.random.key(0), (1024, WIDTH))
    whole_ND, y_BND = AXES[kind](x_ND), jax.vmap(AXES[kind])(x_ND.reshape(-1, size, WIDTH))
    return float(jnp.linalg.norm(y_BND.reshape(-1, WIDTH) - whole_ND) / jnp.linalg.norm(whole_ND))


def sentences(ids: np.ndarray, count: int, length: int, seed: int) -> np.ndarray:
    """Returns rows [count, length + 1] of a text, each from a line break on."""
    starts = np.flatnonzero(ids[: -length - 1] == 0)
    starts = np.random.default_rng(seed).choice(starts, count)
    return ids[starts[:, None] + np.arange(length + 1)]


def learn(kind: str, groups: int) -> dict[int, np.ndarray]:
    """Trains a recurrent reader; returns {step: the validation loss of each letter}."""
    train, test, vocab_size = batch_norm.read(None)
    model = batch_norm.RecurrentModel(vocab_size, kind, WIDTH, momentum=0.0)
    seen_BT, test_BT = sentences(train, 256, LENGTH, 0), sentences(test, 256, 2 * LENGTH, 0)

    @jax.jit
    def losses(params: dict) -> jax.Array:
        # As momentum is 0, the statistics are those of the 256 sentences.
        apply = functools.partial(model.apply, mutable=["batch_stats"])
        _, statistics = apply({"params": params}, seen_BT[:, :-1], train=True)
        # Positions behind those of training have none: they take those of the last.
        longer = lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], LENGTH, axis=0)])
        variables = {"params": params, **jax.tree.map(longer, statistics)}
        logits_BTV, _ = apply(variables, test_BT[:, :-1], train=False)
        return token_nats(logits_BTV, test_BT[:, 1:]).mean(axis=0)

    batches = (sentences(train, ROWS, LENGTH, step) for step in itertools.count(1))
    training = batch_norm.learn(model, batches, steps=STEPS, seed=0, groups=groups)
    steps = ((step, params) for step, (params, *_) in enumerate(training, 1) if step % 25 == 0)
    return {step: np.asarray(losses(params)) for step, params in steps}


def axes() -> picture.Chart:
    """Returns, for one number of three texts, with which others it is normalised."""
    rows, x_BTD = [], jax.random.normal(jax.random.key(0), (3, 3, 4))
    names = ["this number", "shares its mean and variance", "not read"]
    for kind, normalise in AXES.items():
        role_BTD = np.where(jax.jacobian(normalise)(x_BTD)[1, 1, 1], 1, 2)
        role_BTD[1, 1, 1] = 0
        for (b, t, d), role in np.ndenumerate(role_BTD):
            place = {"of": f"text {b + 1}, position {t + 1}", "feature": d + 1}
            rows.append({"kind": kind, **place, "is": names[role]})
    colours = {"domain": names, "range": [picture.ORANGE, picture.BLUE, "white"]}
    legend = {"orient": "bottom", "title": None}
    return {
        **{"data": {"values": rows}, "width": 130, "height": 170},
        "mark": {"type": "rect", "stroke": picture.GREY},
        "encoding": {
            "column": {"field": "kind", "sort": None, "title": None},
            "x": {"field": "feature", "type": "ordinal", "axis": {"labelAngle": 0}},
            "y": {"field": "of", "title": None},
            "color": {"field": "is", "scale": colours, "legend": legend},
        },
    }


def show() -> picture.Chart:
    """Returns what is normalised together, and the losses of a recurrent reader with each."""
    for kind, size in itertools.product(("batch", "layer"), (1, 4, 32)):
        print(f"{kind} normalisation, batch of {size:2}: outputs move by {moved(kind, size):.1%}")
    curves, ends = [], []
    for kind, (norm, groups) in KINDS.items():
        nats = learn(norm, groups)
        curve = {step: float(nats_T[:LENGTH].mean()) for step, nats_T in nats.items()}
        end = {letters: float(nats[STEPS][part].mean()) for letters, part in PARTS.items()}
        print(f"{kind:12}{curve[STEPS]:5.2f}", *(f"letter {i}: {x:.2f}" for i, x in end.items()))
        curves += [{"normalisation": kind, "step": step, "nats": x} for step, x in curve.items()]
        ends += [{"normalisation": kind, "letter": i, "nats": x} for i, x in end.items()]
    step = {"field": "step", "type": "quantitative"}
    letter = {"field": "letter", "type": "nominal", "sort": None, "axis": {"labelAngle": 0}}
    nats = {"field": "nats", "type": "quantitative", "scale": {"zero": False}, "title": None}
    titles = "Validation loss, nats a letter", "After the last step, by letter"
    charts = [
        {
            **{"title": title, "width": 210, "height": 180, "data": {"values": rows}},
            "mark": {"type": "line", "point": True},
            "encoding": {"x": x, "y": nats, "color": {"field": "normalisation", "sort": None}},
        }
        for title, rows, x in zip(titles, (curves, ends), (step, letter), strict=True)
    ]
    return {
        "vconcat": [axes(), {"hconcat": charts}],
        "resolve": {"scale": {"color": "independent"}},
    }
