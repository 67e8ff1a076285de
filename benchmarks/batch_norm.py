"""Batch against layer normalisation in a Transformer: training curve, and gap in inference.

    python -m benchmarks.batch_norm
    python -m benchmarks.batch_norm --text FILE --batch 64 --picture batch_norm.svg

A small language model predicts the characters of the built-in corpus's English sentences, or of a
text of yours. Batch normalisation (Ioffe and Szegedy 2015) takes the mean and variance of a feature
over all rows and positions of a batch in training, and running averages of them in inference. Shen
et al. 2020 (PowerNorm) find that in text these vary from batch to batch, and that Transformers are
the worse for it. The columns are, as means over --seeds,

    train             the loss in training, of the last tenth of the steps (nats a character)
    test              the loss on unseen text by the running averages, as in inference
    by its batches    the same by the statistics of the test batches themselves
    deviation         how far a batch's means are from the running ones, in running deviations

so that `test` less `by its batches` is what inference loses. In training the statistics of a batch
also know the characters to come, a little: `train` of batch normalisation is no fair prediction.

Measured with the defaults (400 steps, 16 rows of 64 characters, two seeds, 2 minutes 18 of CPU):

    norm   place    train    test   by its batches   deviation
    layer  post     1.457   1.443       1.443           0.000
    layer  pre      1.534   1.519       1.519           0.000
    batch  post     1.408   1.392       1.394           0.012
    batch  pre      1.626   1.609       1.609           0.022

Here batch normalisation is the better one after each residual (post), the worse one before each
sub-layer (pre), and inference loses nothing: the means of a batch are within a fortieth of a
deviation of the running ones. On tinyshakespeare (--text, --steps 600, one seed, momentum 0.99)
post is a tie, 2.177 and 2.171, and pre is worse again, 2.191 and 2.268. So it is with batches of
four rows from one passage (--batch 4 --neighbours): post 2.402 and 2.403, pre 2.388 and 2.443. Shen
et al. trained larger models on padded sentence pairs; the gap that they found is not seen here.
"""

import argparse
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer.models import stack
from transformer.models.attention import View
from transformer.models.layer_options import LayerOptions
from transformer.models.positions import sinusoids
from transformer.tools.quickstart import grammar

Array = jax.Array
KINDS = [(kind, place) for kind in ("layer", "batch") for place in ("post", "pre")]
MOMENTUM = 0.9  # a batch's share of the running averages is a tenth, as in PyTorch
LENGTH, TEST_BATCHES = 64, 32  # characters of a row; how many batches are scored
OPTIONS = {
    **{"d_model": 64, "d_ff": 256, "num_heads": 4, "key_size": 0, "value_size": 0},
    **{"score": "scaled_dot", "positions": "none", "max_distance": 0, "attention_bias": False},
    **{"norm_epsilon": 1e-6, "norm_kind": "layer", "residual": True, "activation": "relu"},
    **{"dropout_rate": 0.0, "attention_dropout_rate": 0.0, "activation_dropout_rate": 0.0},
    **{"num_layers": 3, "final_norm": False, "remat": False, "mixer": "attention"},
    "gated": False,
}


class BatchNormResidual(nn.Module):
    """`layers.Residual` with batch normalisation in the place of LayerNorm."""

    norm: str

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        normalise = nn.BatchNorm(use_running_average=not train, momentum=MOMENTUM)
        if self.norm == "pre":
            return x_BTD + sublayer(normalise(x_BTD))
        return normalise(x_BTD + sublayer(x_BTD))


class CharacterModel(nn.Module):
    """Maps characters [B, T] to logits [B, T, V] of those that follow."""

    vocab_size: int
    kind: str  # 'layer' or 'batch'
    norm: str  # 'post' or 'pre'

    @nn.compact
    def __call__(self, ids_BT: Array, *, train: bool) -> Array:
        options = LayerOptions(**OPTIONS, norm=self.norm)
        sublayers = stack.sublayers(options, "float32", causal=True)
        if self.kind == "batch":
            residual = functools.partial(BatchNormResidual, norm=self.norm)
            sublayers = sublayers._replace(residual=residual)
        positions_BT = jnp.broadcast_to(jnp.arange(ids_BT.shape[1]), ids_BT.shape)
        mask_BTT = positions_BT[:, :, None] >= positions_BT[:, None, :]
        view = View(mask_BTT, positions_BT, positions_BT)
        x_BTD = nn.Embed(self.vocab_size, options.d_model)(ids_BT) * options.d_model**0.5
        x_BTD += sinusoids(positions_BT, options.d_model, "interleaved")
        encoder = stack.Stack(options=options, sublayers=sublayers)
        return nn.Dense(self.vocab_size)(encoder(x_BTD, view, train=train))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file; else the built-in corpus's English")
    parser.add_argument("--batch", type=int, default=16, help="rows of a training batch")
    parser.add_argument("--neighbours", action="store_true", help="a batch is of one passage")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="a file to draw the curves into")
    arguments = parser.parse_args()
    train, test, size = read(arguments.text)
    print("norm   place    train    test   by its batches   deviation", flush=True)
    curves = {}
    for kind, place in KINDS:
        model = CharacterModel(vocab_size=size, kind=kind, norm=place)
        runs = [run(model, train, test, arguments, seed) for seed in range(arguments.seeds)]
        results, curves[f"{kind}, {place}"] = (np.mean(x, axis=0) for x in zip(*runs, strict=True))
        print("{:6} {:5} {:8.3f}{:8.3f}{:12.3f}{:16.3f}".format(kind, place, *results), flush=True)
    if arguments.picture:
        draw(curves, arguments.picture)


def read(file: Path | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the ids of the training characters, of the last tenth to test, and how many ids."""
    pairs = grammar.sentence_pairs()["train"] if file is None else []
    text = file.read_text("utf-8") if file else "\n".join(english for _, english in pairs)
    characters, ids = np.unique(list(text), return_inverse=True)
    ids, cut = ids.astype(np.int32), len(ids) * 9 // 10
    return ids[:cut], ids[cut:], len(characters)


def batches(ids: np.ndarray, arguments: argparse.Namespace, seed: int) -> Iterator[np.ndarray]:
    """Yields the characters [B, T + 1] of windows drawn at random, or of neighbours."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(0, len(ids) - arguments.batch * LENGTH, arguments.batch)
        if arguments.neighbours:
            starts = starts[0] + LENGTH * np.arange(arguments.batch)
        yield ids[starts[:, None] + np.arange(LENGTH + 1)]


def loss_fn(
    params: Any, statistics: Any, batch: Array, model: CharacterModel, train: bool
) -> tuple[Array, Any]:
    """Returns the mean loss of a character, and the statistics after the batch."""
    variables = {"params": params, "batch_stats": statistics}
    apply = functools.partial(model.apply, variables, train=train, mutable=["batch_stats"])
    logits_BTV, updated = apply(batch[:, :-1])
    losses_BT = optax.softmax_cross_entropy_with_integer_labels(logits_BTV, batch[:, 1:])
    return losses_BT.mean(), updated.get("batch_stats", {})


def run(
    model: CharacterModel,
    train: np.ndarray,
    test: np.ndarray,
    arguments: argparse.Namespace,
    seed: int,
) -> tuple[list[float], np.ndarray]:
    """Trains; returns (train, test, by its batches, deviation), and the smoothed training curve."""
    steps = arguments.steps
    adam = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 2e-3, steps // 10, steps), b2=0.98)
    loss = functools.partial(loss_fn, model=model)

    @jax.jit
    def update(params: Any, statistics: Any, state: Any, batch: Array) -> tuple:
        grad = jax.value_and_grad(functools.partial(loss, train=True), has_aux=True)
        (value, statistics), gradient = grad(params, statistics, batch)
        updates, state = adam.update(gradient, state)
        return optax.apply_updates(params, updates), statistics, state, value

    batch = next(batches(train, arguments, seed))
    variables = jax.jit(functools.partial(model.init, train=False))(jax.random.key(seed), batch)
    params, statistics = variables["params"], variables.get("batch_stats", {})
    state, values = adam.init(params), []
    for _, batch in zip(range(steps), batches(train, arguments, seed), strict=False):
        params, statistics, state, value = update(params, statistics, state, batch)
        values.append(value)
    values, scored = np.asarray(values), []
    evaluate = jax.jit(loss, static_argnames="train")
    for _, batch in zip(range(TEST_BATCHES), batches(test, arguments, 10**6), strict=False):
        inference, _ = evaluate(params, statistics, batch, train=False)
        by_batch, moved = evaluate(params, statistics, batch, train=True)
        scored.append((float(inference), float(by_batch), deviation(statistics, moved)))
    curve = values[: steps // 20 * 20].reshape(20, -1).mean(axis=1)
    return [float(values[-steps // 10 :].mean()), *np.mean(scored, axis=0)], curve


def deviation(running: Any, moved: Any) -> float:
    """Returns the mean distance of a batch's means from the running ones, in running deviations.

    `moved` are the running statistics after that batch, a tenth of the way to its own.
    """
    norms = [
        np.abs(after["mean"] - before["mean"]) / (1 - MOMENTUM) / np.sqrt(before["var"] + 1e-5)
        for before, after in zip(leaves(running), leaves(moved), strict=True)
    ]
    return float(np.mean(norms)) if norms else 0.0


def leaves(statistics: Any) -> list[dict[str, Array]]:
    return jax.tree.leaves(statistics, is_leaf=lambda node: "mean" in node)


def draw(curves: dict[str, np.ndarray], file: Path) -> None:
    """Draws the training curves."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, curve in curves.items():
        axes.plot(100 * np.arange(1, len(curve) + 1) / len(curve), curve, label=name)
    axes.set_xlabel("% of the steps")
    axes.set_ylabel("training loss, nats a character")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(file)


if __name__ == "__main__":
    main()
