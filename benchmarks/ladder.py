"""Fits a scaling law to small models, and predicts the loss of a larger one.

    python launch.py --mode=sweep configs/sweeps/ladder.toml --config.data.directory=TATOEBA
    python -m benchmarks.ladder runs/ladder --picture ladder.svg

The law is Hoffmann et al.'s (2022), of validation nats a token after D target tokens with N params
beside the embedding:

    L(N, D) = E + A / N^alpha + B / D^beta

It is fitted to every validation of all rows but the last, in logarithms by Huber's loss, as there.
The 95 % intervals are of a bootstrap that adds the residuals of random runs, each whole, to the
law, because the validations of one run err together. The last row need not have been run yet.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict
from scipy import optimize, special

from transformer.tasks import task, translation
from transformer.tools.pages import charts
from transformer.tools.sweep import sweep_file
from transformer.workdir import log

SWEEP = Path("configs/sweeps/ladder.toml")
NAMES = ("E", "A", "alpha", "B", "beta")
RESAMPLES = 400


class Curve(NamedTuple):
    """The validations of a run: nats a token by target tokens seen."""

    row: str
    params: int
    tokens: np.ndarray
    nats: np.ndarray


def read(row: sweep_file.Row) -> list[Curve]:
    """Returns the curves of a row's finished runs; of a row without any, one without numbers."""
    config = row.runs[0].config
    steps = np.arange(0, config.train.num_steps, config.evaluate.every) + config.evaluate.every
    about = (row.name, size(config), config.data.batch_tokens * steps)
    logs = [[x for x in log.read(run.workdir) if x["kind"] == "validation"] for run in row.runs]
    nats = [np.array([x["nats_per_token"] for x in lines]) for lines in logs]
    return [Curve(*about, x) for x in nats if len(x) == len(steps)] or [Curve(*about, np.array([]))]


def size(config: ConfigDict) -> int:
    """Returns the number of a model's params beside the embedding, by shapes alone."""
    model = translation.model(config, translation.sizes(config, None))
    params = task.abstract_params(model, translation.example(config, 1))
    return (
        sum(x.size for x in jax.tree.leaves(params)) - config.vocabulary.size * config.model.d_model
    )


def log_law(law: np.ndarray, params: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns log L; `law` is (log E, log A, alpha, log B, beta)."""
    e, a, alpha, b, beta = law
    terms = e, a - alpha * np.log(params), b - beta * np.log(tokens)
    return special.logsumexp(np.broadcast_arrays(*terms), axis=0)


def fit(
    params: np.ndarray, tokens: np.ndarray, log_nats: np.ndarray, starts: Sequence[Sequence[float]]
) -> np.ndarray:
    """Returns the law nearest to losses, the best of several starts."""
    errors = lambda law: log_law(law, params, tokens) - log_nats
    options = {"loss": "huber", "f_scale": 1e-3, "x_scale": (1, 10, 1, 10, 1)}
    fits = [optimize.least_squares(errors, start, **options) for start in starts]
    return min(fits, key=lambda x: x.cost).x


def fit_curves(curves: Sequence[Curve], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Returns the law of runs with equal steps, its resamples, and a residual curve for each."""
    tokens = curves[0].tokens
    params = np.array([x.params for x in curves])[:, None]
    flat = [x.ravel() for x in np.broadcast_arrays(params, tokens)]
    log_nats = np.log([x.nats for x in curves])
    starts = [
        (e, 5, alpha, 5, beta) for e in (-1, 0.5) for alpha in (0.3, 0.6) for beta in (0.3, 0.6)
    ]
    law = fit(*flat, log_nats.ravel(), starts)
    expected = log_law(law, *flat).reshape(log_nats.shape)
    # Three of the law's five numbers are of the differences between runs.
    residuals = (log_nats - expected) * math.sqrt(len(curves) / (len(curves) - 3))
    draws = rng.choice(residuals, (RESAMPLES, len(curves)))
    laws = np.array([fit(*flat, (expected + x).ravel(), [law]) for x in draws])
    return law, laws, rng.choice(residuals, RESAMPLES)


def plain(laws: np.ndarray) -> np.ndarray:
    """Returns laws of logarithms as the five NAMES."""
    return np.where([True, True, False, True, False], np.exp(laws), laws)


def interval(values: np.ndarray) -> np.ndarray:
    """Returns the middle 95 % of each column."""
    return np.quantile(values, [0.025, 0.975], axis=0)


def in_millions(tokens: int) -> str:
    return f"{tokens / 1e6:.1f} million tokens"


def chart(curves: Sequence[Curve], law: np.ndarray, larger: Sequence[dict]) -> charts.Chart:
    """Returns nats a token by params, a colour for each number of tokens; lines are the law."""
    measured = [
        {"params": x.params, "tokens": in_millions(n), "nats": y}
        for x in curves
        for n, y in zip(x.tokens, x.nats, strict=True)
    ]
    # The line goes from the smallest to the predicted model.
    grid = np.geomspace(curves[0].params, larger[0]["params"], 40)
    lines = [
        {"params": p, "tokens": in_millions(n), "nats": y}
        for n in curves[0].tokens
        for p, y in zip(grid, np.exp(log_law(law, grid, n)), strict=True)
    ]
    logarithmic = {"type": "log", "nice": False}
    x = {"field": "params", "type": "quantitative", "scale": logarithmic, "title": "params"}
    y = {"field": "nats", "type": "quantitative", "title": "nats a token"}
    y["scale"] = {"type": "log", "zero": False, "nice": False}
    encoding = {"x": x, "y": y, "color": {"field": "tokens", "type": "nominal", "sort": None}}
    bars = {**encoding, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = [
        {"data": {"values": lines}, "mark": {"type": "line", "size": 1}, "encoding": encoding},
        {
            "data": {"values": measured},
            "mark": {"type": "point", "filled": True},
            "encoding": encoding,
        },
        {"data": {"values": [*larger]}, "mark": {"type": "rule", "size": 3}, "encoding": bars},
    ]
    return {"width": 460, "height": 300, "layer": layers}


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.ladder", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder of the sweep")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    arguments = parser.parse_args()
    *rows, last = map(read, sweep_file.read(SWEEP, arguments.folder))
    curves = [curve for row in rows for curve in row]
    law, laws, residuals = fit_curves(curves, np.random.default_rng(0))
    for name, x, low, high in zip(NAMES, plain(law), *interval(plain(laws)), strict=True):
        print(f"{name:6}{x:10.3g} ({low:.3g} to {high:.3g})")
    params, tokens = last[0].params, last[0].tokens
    predicted = np.exp(log_law(law, params, tokens))
    likely = np.exp([log_law(x, params, tokens) + r for x, r in zip(laws, residuals, strict=True)])
    larger = []
    print(f"{last[0].row}, {params:,} params beside the embedding")
    for i, (low, high) in enumerate(interval(likely).T):
        found = ", ".join(f"{x.nats[i]:.3f}" for x in last if x.nats.size) or "not run"
        print(f"{tokens[i]:12,} tokens: {predicted[i]:.3f} ({low:.3f} to {high:.3f}); {found}")
        larger.append(
            {"params": params, "tokens": in_millions(tokens[i]), "low": low, "high": high}
        )
    if arguments.picture:
        measured = [*curves, *(x for x in last if x.nats.size)]
        arguments.picture.write_text(charts.svg(chart(measured, law, larger)))


if __name__ == "__main__":
    main()
