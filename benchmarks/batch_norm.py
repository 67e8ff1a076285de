"""Batch against layer normalisation: training curve, and gap in inference.

    python -m benchmarks.batch_norm
    python -m benchmarks.batch_norm --model recurrent
    python -m benchmarks.batch_norm --text FILE --batch 64 --picture batch_norm.svg

A small Transformer predicts the characters of the built-in corpus's English sentences, or of a
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
With --groups each part of a batch has statistics of its own, as on so many devices. The recurrent
model normalises inside its recurrence, where batch normalisation has statistics at each position.

Measured with the defaults (400 steps, 16 rows of 64 characters, two seeds, 2 minutes 18 of CPU):

    norm   place    train    test   by its batches   deviation
    layer  post     1.470   1.455       1.455           0.000
    layer  pre      1.518   1.498       1.498           0.000
    batch  post     1.422   1.406       1.408           0.012
    batch  pre      1.660   1.646       1.646           0.023

Here batch normalisation is the better one after each residual (post), the worse one before each
sub-layer (pre), and inference loses nothing: the means of a batch are within a fortieth of a
deviation of the running ones. On tinyshakespeare (--text, --steps 600, one seed, momentum 0.99)
post is a tie, 2.177 and 2.171, and pre is worse again, 2.191 and 2.268. So it is with batches of
four rows from one passage (--batch 4 --neighbours): post 2.402 and 2.403, pre 2.388 and 2.443. Shen
et al. trained larger models on padded sentence pairs; the gap that they found is not seen here.
Nor is it with statistics of 4 rows (--batch 32 --groups 8): post 1.250 and 1.206, pre 1.340 and
1.461.

    recurrent inside
    none             1.715   1.714       1.714           0.000
    layer            2.122   2.119       2.119           0.000
    batch            1.804   1.720       1.801           0.153

In the plain recurrent network layer normalisation slows the learning down, and batch normalisation
is no worse than none. The windows begin anywhere in the text: docs/tour/normalisation.py has rows
that begin alike, as sentences do.
"""

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from configs import _keys, _layers
from transformer import registry
from transformer.models import stack
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View
from transformer.models.positions import sinusoids
from transformer.tools.quickstart import grammar

Array = jax.Array
Tree = Any
KINDS = {
    "transformer": [(kind, place) for kind in ("layer", "batch") for place in ("post", "pre")],
    "recurrent": [(kind, "inside") for kind in ("none", "layer", "batch")],
}
MOMENTUM = 0.9  # a batch's share of the running averages is a tenth, as in PyTorch
LENGTH, TEST_BATCHES = 64, 32  # characters of a row; how many batches are scored
OPTIONS = {
    **_keys.make(_layers.KEYS).model.to_dict(),
    **{"d_model": 64, "d_ff": 256, "num_heads": 4, "num_layers": 3},
    **{"dropout_rate": 0.0, "positions": "none"},
}
del OPTIONS["dtype"]


class BatchNormResidual(nn.Module):
    """`layers.Residual` with batch normalisation in the place of LayerNorm."""

    place: str  # of the norm, 'post' or 'pre'

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        normalise = nn.BatchNorm(use_running_average=not train, momentum=MOMENTUM)
        if self.place == "pre":
            return x_BTD + sublayer(normalise(x_BTD))
        return normalise(x_BTD + sublayer(x_BTD))


class CharacterModel(nn.Module):
    """Maps characters [B, T] to logits [B, T, V] of those that follow."""

    vocab_size: int
    kind: str  # 'layer' or 'batch'
    place: str  # of the norm, 'post' or 'pre'

    @nn.compact
    def __call__(self, ids_BT: Array, *, train: bool) -> Array:
        residual = f"batch(place={self.place!r})" if self.kind == "batch" else self.place
        options = LayerOptions(**{**OPTIONS, "residual": residual})
        positions_BT = jnp.broadcast_to(jnp.arange(ids_BT.shape[1]), ids_BT.shape)
        mask_BTT = positions_BT[:, :, None] >= positions_BT[:, None, :]
        view = View(mask_BTT, positions_BT, positions_BT)
        x_BTD = nn.Embed(self.vocab_size, options.d_model)(ids_BT) * options.d_model**0.5
        x_BTD += sinusoids(positions_BT, options.d_model)
        layers = stack.Stack(options, causal=True, dtype="float32")
        return nn.Dense(self.vocab_size)(layers(x_BTD, view, train=train))


class RecurrentModel(nn.Module):
    """Maps characters [B, T] to logits of those that follow: h = tanh(norm(W x + U h))."""

    vocab_size: int
    kind: str  # 'none', 'layer' or 'batch'
    width: int
    momentum: float = MOMENTUM

    def setup(self) -> None:
        orthogonal = nn.initializers.orthogonal()
        self.embedding, self.input = nn.Embed(self.vocab_size, self.width), nn.Dense(self.width)
        self.state = nn.Dense(self.width, use_bias=False, kernel_init=orthogonal)
        self.output = nn.Dense(self.vocab_size)
        if self.kind == "layer":
            self.norm = nn.LayerNorm()
        elif self.kind == "batch":
            gain = nn.initializers.constant(0.1)  # Cooijmans et al. 2017: with 1, tanh saturates
            self.norm = nn.BatchNorm(momentum=self.momentum, scale_init=gain)

    def __call__(self, ids_BT: Array, *, train: bool) -> Array:
        def position(self: RecurrentModel, h_BC: Array, x_BC: Array) -> tuple[Array, Array]:
            options = {"use_running_average": not train} if self.kind == "batch" else {}
            a_BC = x_BC + self.state(h_BC)
            h_BC = jnp.tanh(a_BC if self.kind == "none" else self.norm(a_BC, **options))
            return h_BC, h_BC

        # All positions have the same params, and each has its own statistics.
        axes = {"variable_broadcast": "params", "variable_axes": {"batch_stats": 0}}
        scan = nn.scan(position, **axes, split_rngs={"params": False}, in_axes=1, out_axes=1)
        x_BTC = self.input(self.embedding(ids_BT))
        _, h_BTC = scan(self, jnp.zeros_like(x_BTC[:, 0]), x_BTC)
        return self.output(h_BTC)


def main() -> None:
    registry.PARTS["residual"]["batch"] = f"{__name__}:BatchNormResidual"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=KINDS, default="transformer")
    parser.add_argument("--text", type=Path, help="a text file; else the built-in corpus's English")
    parser.add_argument("--batch", type=int, default=16, help="rows of a training batch")
    parser.add_argument("--groups", type=int, default=1, help="parts with statistics of their own")
    parser.add_argument("--neighbours", action="store_true", help="a batch is of one passage")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="an SVG file to draw the curves into")
    arguments = parser.parse_args()
    train, test, size = read(arguments.text)
    print("norm   place    train    test   by its batches   deviation", flush=True)
    curves = {}
    for kind, place in KINDS[arguments.model]:
        model = CharacterModel(vocab_size=size, kind=kind, place=place)
        if arguments.model == "recurrent":
            model = RecurrentModel(vocab_size=size, kind=kind, width=OPTIONS["d_model"])
        runs = [run(model, train, test, arguments, seed) for seed in range(arguments.seeds)]
        results, curves[f"{kind}, {place}"] = (np.mean(x, axis=0) for x in zip(*runs, strict=True))
        print("{:6} {:5} {:8.3f}{:8.3f}{:12.3f}{:16.3f}".format(kind, place, *results), flush=True)
    if arguments.picture:
        draw(curves, arguments.steps, arguments.picture)


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
    params: Tree,
    statistics: Tree,
    batch_BT: Array,
    *,
    model: nn.Module,
    train: bool,
    groups: int = 1,
) -> tuple[Array, Tree]:
    """Returns the mean loss of a character, and the statistics after the batch.

    In training each of the `groups` of rows is normalised by its own statistics; the running ones
    are those of all groups, averaged.
    """
    variables = {"params": params, "batch_stats": statistics}
    apply = functools.partial(model.apply, variables, train=train, mutable=["batch_stats"])
    batch_GBT = batch_BT.reshape(groups, -1, batch_BT.shape[1])
    logits_GBTV, updated = jax.vmap(apply)(batch_GBT[..., :-1])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_GBTV, batch_GBT[..., 1:])
    average = functools.partial(jnp.mean, axis=0)
    return losses.mean(), jax.tree.map(average, updated.get("batch_stats", {}))


def learn(
    model: nn.Module, batches: Iterator[np.ndarray], *, steps: int, seed: int, groups: int = 1
) -> Iterator[tuple[Tree, Tree, Array]]:
    """Trains with Adam; yields params, running statistics and loss after each update."""
    adam = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 2e-3, steps // 10, steps), b2=0.98)
    loss = functools.partial(loss_fn, model=model, train=True, groups=groups)

    @jax.jit
    def update(params: Tree, statistics: Tree, state: Tree, batch_BT: Array) -> tuple:
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, statistics), gradient = gradient(params, statistics, batch_BT)
        updates, state = adam.update(gradient, state)
        return optax.apply_updates(params, updates), statistics, state, value

    batches = itertools.islice(batches, steps)
    first = next(batches)
    init = jax.jit(functools.partial(model.init, train=False))
    variables = init(jax.random.key(seed), first[:, :-1])
    params, statistics = variables["params"], variables.get("batch_stats", {})
    state = adam.init(params)
    for batch_BT in itertools.chain([first], batches):
        params, statistics, state, value = update(params, statistics, state, batch_BT)
        yield params, statistics, value


def run(
    model: nn.Module,
    train: np.ndarray,
    test: np.ndarray,
    arguments: argparse.Namespace,
    seed: int,
) -> tuple[list[float], np.ndarray]:
    """Trains; returns (train, test, by its batches, deviation), and the smoothed training curve."""
    steps = arguments.steps
    drawn = batches(train, arguments, seed)
    losses = []
    for trained in learn(model, drawn, steps=steps, seed=seed, groups=arguments.groups):
        losses.append(trained[-1])
    params, statistics, _ = trained
    losses = np.asarray(losses)
    scored = []
    loss = functools.partial(loss_fn, model=model, groups=arguments.groups)
    evaluate = jax.jit(loss, static_argnames="train")
    for batch in itertools.islice(batches(test, arguments, 10**6), TEST_BATCHES):
        inference, _ = evaluate(params, statistics, batch, train=False)
        by_batch, moved = evaluate(params, statistics, batch, train=True)
        scored.append((float(inference), float(by_batch), deviation(statistics, moved)))
    curve = losses[: steps // 20 * 20].reshape(20, -1).mean(axis=1)
    return [float(losses[-steps // 10 :].mean()), *np.mean(scored, axis=0)], curve


def deviation(running: Tree, moved: Tree) -> float:
    """Returns the mean distance of a batch's means from the running ones, in running deviations.

    `moved` are the running statistics after that batch, a tenth of the way to its own.
    """
    norms = [
        np.abs(after["mean"] - before["mean"]) / (1 - MOMENTUM) / np.sqrt(before["var"] + 1e-5)
        for before, after in zip(leaves(running), leaves(moved), strict=True)
    ]
    return float(np.mean(norms)) if norms else 0.0


def leaves(statistics: Tree) -> list[dict[str, Array]]:
    return jax.tree.leaves(statistics, is_leaf=lambda node: "mean" in node)


def draw(losses: dict[str, np.ndarray], steps: int, file: Path) -> None:
    """Draws the training loss, nats a character, at the end of each twentieth of the steps."""
    from transformer.tools.pages import charts, curves

    ends = [steps * i // 20 for i in range(1, 21)]
    series = {name: [*zip(ends, loss.tolist(), strict=True)] for name, loss in losses.items()}
    spec = {**curves.plot("", series).spec, "title": "nats a character", "width": 500}
    file.write_text(charts.svg(spec), "utf-8")


if __name__ == "__main__":
    main()
