"""Fits a scaling law to small models, and predicts the loss of a larger one.

    python launch.py --mode=sweep configs/sweeps/ladder.toml --config.data.directory=TATOEBA
    python -m benchmarks.ladder runs/ladder --picture ladder.svg

The law is the form of Hoffmann et al. (2022), of validation nats a token after D target positions
with N params, without the embedding:

    L(N, D) = E + A / N^alpha + B / D^beta

It is fitted to every validation of all rows but the last, with Huber's loss of the logarithms, as
theirs is; they fit the last losses of runs only. The last row need not have been run yet. Intervals
are the middle 95 % of a bootstrap that resamples the residuals: whole curves of a size, because the
law errs on a size as a whole, and of seeds. What is predicted is a further run.
"""

import argparse
import itertools
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


class Size(NamedTuple):
    """The finished runs of a size: nats a token of K seeds, after T numbers of positions."""

    name: str
    params: int
    positions_T: np.ndarray
    nats_KT: np.ndarray


def read(row: sweep_file.Row) -> Size:
    """Returns the validations of a row's finished runs."""
    config = row.runs[0].config
    steps = np.arange(0, config.train.num_steps, config.evaluate.every) + config.evaluate.every
    logs = [[x for x in log.read(run.workdir) if x["kind"] == "validation"] for run in row.runs]
    nats = [[x["nats_per_token"] for x in lines] for lines in logs if len(lines) == len(steps)]
    positions = config.data.batch_tokens * steps
    return Size(row.name, num_params(config), positions, np.reshape(nats, (-1, len(steps))))


def num_params(config: ConfigDict) -> int:
    """Returns the number of a model's params without the embedding, by shapes alone."""
    model = translation.model(config, translation.sizes(config, None))
    params = task.abstract_params(model, translation.example(config, 1))
    embedding = config.vocabulary.size * config.model.d_model
    return sum(x.size for x in jax.tree.leaves(params)) - embedding


def log_law(law: np.ndarray, params: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Returns log L; `law` is (log E, log A, alpha, log B, beta)."""
    e, a, alpha, b, beta = law
    terms = e, a - alpha * np.log(params), b - beta * np.log(positions)
    return special.logsumexp(np.broadcast_arrays(*terms), axis=0)


def fit(
    params: np.ndarray,
    positions: np.ndarray,
    log_nats: np.ndarray,
    starts: Sequence[Sequence[float]],
) -> np.ndarray:
    """Returns the law nearest to losses, the best of several starts."""
    errors = lambda law: log_law(law, params, positions) - log_nats
    options = {"loss": "huber", "f_scale": 1e-3, "x_scale": (1, 10, 1, 10, 1)}
    fits = [optimize.least_squares(errors, start, **options) for start in starts]
    return min(fits, key=lambda x: x.cost).x


def fit_rows(rows: Sequence[Size], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Returns the law of rows with as many seeds and steps, its resamples, and residual curves."""
    params_R11 = np.array([x.params for x in rows])[:, None, None]
    log_nats_RKT = np.log([x.nats_KT for x in rows])
    R, K, _ = log_nats_RKT.shape
    full = np.broadcast_arrays(params_R11, rows[0].positions_T, log_nats_RKT)[:2]
    flat = [x.ravel() for x in full]
    rates = itertools.product((-1, 0.5), (0.3, 0.6), (0.3, 0.6))
    law = fit(*flat, log_nats_RKT.ravel(), [(e, 5, alpha, 5, beta) for e, alpha, beta in rates])
    expected_RKT = log_law(law, *full)
    residuals_RKT = log_nats_RKT - expected_RKT
    # Widened by the degrees of freedom: three of the law's numbers are of the differences of sizes.
    of_sizes_RT = residuals_RKT.mean(axis=1) * math.sqrt(R / (R - 3))
    of_seeds_RKT = residuals_RKT - residuals_RKT.mean(axis=1, keepdims=True)
    of_seeds_XT = np.concatenate(of_seeds_RKT) * math.sqrt(K / (K - 1))
    # One error for all seeds of a size, and one for each seed: [sizes, seeds, T].
    draw = lambda sizes, seeds: (
        rng.choice(of_sizes_RT, (sizes, 1)) + rng.choice(of_seeds_XT, (sizes, seeds))
    )
    laws = [fit(*flat, (expected_RKT + draw(R, K)).ravel(), [law]) for _ in range(RESAMPLES)]
    return law, np.array(laws), draw(RESAMPLES, 1)[:, 0]


def plain(laws: np.ndarray) -> np.ndarray:
    """Returns laws of logarithms as the five NAMES."""
    return np.where([True, True, False, True, False], np.exp(laws), laws)


def interval(values: np.ndarray) -> np.ndarray:
    """Returns the middle 95 % of each column."""
    return np.quantile(values, [0.025, 0.975], axis=0)


def in_millions(positions: int) -> str:
    """Returns a legend's text for a number of positions."""
    return f"{positions / 1e6:.1f} million positions"


def chart(rows: Sequence[Size], law: np.ndarray, larger: Sequence[dict]) -> charts.Chart:
    """Returns nats a token by params: points are runs, lines the law, bars what it predicts."""
    measured = [
        {"params": row.params, "after": in_millions(n), "nats": y}
        for row in rows
        for nats_T in row.nats_KT
        for n, y in zip(row.positions_T, nats_T, strict=True)
    ]
    # The lines go from the smallest to the predicted model.
    grid = np.geomspace(rows[0].params, larger[0]["params"], 40)
    lines = [
        {"params": p, "after": in_millions(n), "nats": y}
        for n in rows[0].positions_T
        for p, y in zip(grid, np.exp(log_law(law, grid, n)), strict=True)
    ]
    logarithmic = {"type": "log", "nice": False}
    x = {"field": "params", "type": "quantitative", "scale": logarithmic, "title": "params"}
    y = {"field": "nats", "type": "quantitative", "title": "nats a token"}
    y["scale"] = {"type": "log", "zero": False, "nice": False}
    encoding = {"x": x, "y": y, "color": {"field": "after", "type": "nominal", "sort": None}}
    bars = {**encoding, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    line, point = {"type": "line", "size": 1}, {"type": "point", "filled": True}
    bar = {"type": "rule", "size": 3, "opacity": 0.6}
    layers = [
        {"data": {"values": lines}, "mark": line, "encoding": encoding},
        {"data": {"values": measured}, "mark": point, "encoding": encoding},
        {"data": {"values": [*larger]}, "mark": bar, "encoding": bars},
    ]
    return {"width": 460, "height": 300, "layer": layers}


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.ladder", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder of the sweep")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    arguments = parser.parse_args()
    *rows, last = map(read, sweep_file.read(SWEEP, arguments.folder))
    seeds = {len(row.nats_KT) for row in rows}
    if len(seeds) > 1 or min(seeds) < 2:
        parser.error(f"all rows but {last.name} need the same number of finished seeds, 2 or more")
    law, laws, residuals = fit_rows(rows, np.random.default_rng(0))
    for name, x, low, high in zip(NAMES, plain(law), *interval(plain(laws)), strict=True):
        print(f"{name:6}{x:10.3g} ({low:.3g} to {high:.3g})")
    predicted = np.exp(log_law(law, last.params, last.positions_T))
    further = np.exp([log_law(x, last.params, last.positions_T) for x in laws] + residuals)
    larger = []
    print(f"{last.name}, {last.params:,} params without the embedding")
    for i, (low, high) in enumerate(interval(further).T):
        measured = ", ".join(f"{x:.3f}" for x in last.nats_KT[:, i]) or "not run"
        after = in_millions(last.positions_T[i])
        print(f"{after}: {predicted[i]:.3f} ({low:.3f} to {high:.3f}); {measured}")
        larger.append({"params": last.params, "after": after, "low": low, "high": high})
    if arguments.picture:
        arguments.picture.write_text(charts.svg(chart([*rows, last], law, larger)))


if __name__ == "__main__":
    main()
