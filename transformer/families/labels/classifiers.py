"""What every classifier shares, of text or images: the loss, the scores of a split, probabilities.

A classifier's model maps a batch's inputs to logits [B, V], one row for each item, V classes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from transformer.data.batches import Batches
from transformer.distributed import inference, parallel_step, processes
from transformer.errors import check_values
from transformer.runtime import memory, progress
from transformer.tasks import losses

Array = jax.Array
Tree = Any


def check(*, label_smoothing: float) -> None:
    """Raises UserError for invalid values of `config.loss`."""
    check_values("loss", locals(), {"label_smoothing": "at least 0 and below 1"})


def cross_entropy(
    logits_BV: Array, targets_B: Array, weights_B: Array, *, label_smoothing: float
) -> dict[str, Array]:
    """Returns the sums 'loss', 'accuracy' and 'weight' over the items; padding has weight 0.

    'loss' is `losses.cross_entropy` (nats), in which a perfect prediction has loss 0.
    """
    smoothing = {"label_smoothing": label_smoothing, "smoothed_over": "all_classes"}
    loss = losses.cross_entropy(logits_BV, targets_B, weights_B, **smoothing)["loss"]
    # By argmax, as `Evaluator` does: of equal logits one is the prediction, not all.
    correct_B = logits_BV.argmax(axis=-1) == targets_B
    return {"loss": loss, "accuracy": (correct_B * weights_B).sum(), "weight": weights_B.sum()}


def training_loss(
    params: Tree, batch: dict, *, model: nn.Module, rng: Array, label_smoothing: float
) -> dict[str, Array]:
    """Returns the sums of `cross_entropy` for a forward pass with dropout, drawn from `rng`.

    What the model sows into the collection 'losses', values [B] of each item, is added to 'loss';
    its sum is logged as 'penalty'.
    """
    return _sums(model, params, batch, label_smoothing, train=True, rngs={"dropout": rng})[1]


def _sums(
    model: nn.Module, params: Tree, batch: dict, label_smoothing: float, **options: Any
) -> tuple[Array, dict[str, Array]]:
    """Returns (logits_BV, sums)."""
    logits_BV, sown = model.apply(
        {"params": params}, **batch["inputs"], mutable=["losses"], **options
    )
    targets_B, weights_B = batch["targets"], batch["weights"]
    sums = cross_entropy(logits_BV, targets_B, weights_B, label_smoothing=label_smoothing)
    if penalties := jax.tree.leaves(sown):
        penalty = sum((penalty_B * weights_B).sum() for penalty_B in penalties)
        sums |= {"loss": sums["loss"] + penalty, "penalty": penalty}
    return logits_BV, sums


@functools.partial(jax.jit, static_argnames="model")
def probabilities(params: Tree, inputs: dict, *, model: nn.Module) -> Array:
    """Returns the probability of each class [B, V] in float32, without dropout."""
    return jax.nn.softmax(model.apply({"params": params}, **inputs, train=False), axis=-1)


class Evaluator:
    """Scores params on every item of one split.

    `batches` has the split's items in order (seed None), one a row. `dataset`, {name: lines}, is
    the split as text, a line an item; `files` are the paths it was read from. After `scores`,
    `outputs` has besides 'prediction', a label an item, and its 'probability'; 'classes', lines of
    LABEL, ITEMS, PRECISION, RECALL and F1; and 'confusion', lines of LABEL, PREDICTION and how many
    items.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        *,
        split: str,
        files: Sequence[str],
        dataset: dict[str, Sequence[str]],
        labels: Sequence[str],
        unit: str,
        label_smoothing: float,
        remedy: str,
    ):
        """`unit` is 'text' or 'image'; `remedy` says which key to lower if memory is short."""
        self.split, self.files = split, list(files)
        self.dataset = self.outputs = dataset
        self.settings = {f"{unit}s": len(batches.items)}
        self._batches, self._labels, self._unit = batches, labels, unit
        self._outcome = functools.partial(_outcome, model=model, label_smoothing=label_smoothing)
        self._remedy = remedy

    def rehearse(self, params: Tree) -> None:
        """Computes the loss of the largest batches; UserError if one does not fit into memory."""
        for t in self._batches.largest():
            self._batch(params, t)

    def scores(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float] | None:
        """Returns 'accuracy' and 'macro_f1' (from 0 to 1), and the means of the loss's other sums.

        'macro_f1' is the mean F1 of the classes that items or predictions have. Collective: each
        process scores its share of the batches, and all return the same. None in all processes if
        `should_stop()` was true in one before its share was done.
        """
        numbers, outcomes = processes.my_share(len(self._batches)), []
        items = processes.my_share(len(self._batches.items))  # about as many as its batches have
        with progress.counter(
            f"classify {self.split}", total=len(items), unit=self._unit
        ) as advance:
            for t in numbers:
                if should_stop():
                    break
                outcomes.append(self._batch(params, t))
                advance(len(outcomes[-1][1]))
        # A process that was stopped must not leave the others waiting in gather_shares.
        if any(processes.all_gather(len(outcomes) < len(numbers))):
            return None
        sums, *items = zip(*processes.gather_shares(outcomes, len(self._batches)), strict=True)
        # Batches have their items in the order of `batches.items`, often that of their lengths.
        back = np.argsort(self._batches.items)
        targets, predictions, probabilities = (np.concatenate(x)[back] for x in items)
        sums = jax.tree.map(lambda *x: sum(x), *sums)
        weight = sums.pop("weight")
        counts = confusion(targets, predictions, len(self._labels))
        probability = {"probability": [f"{p:.4f}" for p in probabilities]}
        self.outputs = {
            **self.dataset,
            **report(counts, predictions, self._labels),
            **probability,
        }
        return {
            **{name: total / weight for name, total in sums.items()},
            "accuracy": float((targets == predictions).mean()),
            "macro_f1": float(np.nanmean(precision_recall_f1(counts)[2])),
        }

    def rows(self, scores: dict) -> dict[str, str]:
        """Formats scores as a table, {name: text}, with the main score first."""
        count = self.settings[f"{self._unit}s"]
        return {
            "accuracy": f"{scores['accuracy']:.2%} of {progress.quantity(count, self._unit)}",
            "macro F1": f"{scores['macro_f1']:.4f} of {len(self._labels)} classes",
            "loss": f"{scores['loss']:.4f}",
        }

    def _batch(self, params: Tree, t: int) -> tuple[dict, list[int], list[int], list[float]]:
        """Returns the sums over batch t, and the class of each of its items, the prediction and its
        probability."""
        num_rows, length = self._batches.shape(t)
        padded = parallel_step.rows_for_devices(num_rows, inference.num_devices(params))
        batch = self._batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with memory.fits_in_memory(what, self._remedy):
            sums, *rows = self._outcome(params, inference.shard_rows(batch, params))
            sums, rows = jax.tree.map(float, sums), [batch["targets"], *map(np.asarray, rows)]
        real_B = batch["weights"] > 0
        return sums, *(row_B[real_B].tolist() for row_B in rows)


@functools.partial(jax.jit, static_argnames=("model", "label_smoothing"))
def _outcome(
    params: Tree, batch: dict, *, model: nn.Module, label_smoothing: float
) -> tuple[dict, Array, Array]:
    """Returns the sums of a forward pass without dropout, and the predictions [B] with their
    probabilities [B]."""
    logits_BV, sums = _sums(model, params, batch, label_smoothing, train=False)
    return sums, logits_BV.argmax(axis=-1), jax.nn.softmax(logits_BV, axis=-1).max(axis=-1)


def confusion(targets: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns how many items of class i were predicted as class j, [V, V]."""
    pairs = targets * num_classes + predictions
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def precision_recall_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each class's precision, recall and F1 from a confusion matrix, [V] each.

    Precision and recall are 0 where nothing was predicted or nothing is there; F1 is their
    harmonic mean, NaN for a class that neither items nor predictions have.
    """
    correct, predicted, actual = np.diag(counts), counts.sum(axis=0), counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        f1 = 2 * correct / (predicted + actual)  # 0 / 0 is NaN
    return correct / np.maximum(predicted, 1), correct / np.maximum(actual, 1), f1


def report(
    counts: np.ndarray, predictions: np.ndarray, labels: Sequence[str]
) -> dict[str, list[str]]:
    """Returns the lines 'prediction', 'classes' and 'confusion' of an evaluation's outputs."""
    scores = zip(labels, counts.sum(axis=1), *precision_recall_f1(counts), strict=True)
    return {
        "prediction": [labels[i] for i in predictions],
        "classes": [
            f"{label}\t{count}\t" + "\t".join(f"{score:.4f}" for score in values)
            for label, count, *values in scores
        ],
        "confusion": [f"{labels[i]}\t{labels[j]}\t{counts[i, j]}" for i, j in np.argwhere(counts)],
    }
