"""Loss, scores and probabilities of a classifier, of texts or of images.

A classifier's model maps a batch's inputs to logits [B, V], one row for each item, V classes.
"""

import functools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from transformer.data.batches import Batches
from transformer.errors import quantity
from transformer.tasks import losses
from transformer.tasks.evaluation import Evaluation, SplitSums

Array = jax.Array
Tree = Any


def cross_entropy(
    logits_BV: Array, targets_B: Array, weights_B: Array, *, label_smoothing: float
) -> dict[str, Array]:
    """Returns the sums 'loss', 'accuracy' and 'weight' over the items; padding has weight 0.

    'loss' is `losses.cross_entropy` (nats); a perfect prediction has loss 0.
    """
    smoothing = {"label_smoothing": label_smoothing, "smoothed_over": "all_classes"}
    loss = losses.cross_entropy(logits_BV, targets_B, weights_B, **smoothing)["loss"]
    # By argmax, as in `evaluation`, so that one of several equal logits is the prediction.
    correct_B = logits_BV.argmax(axis=-1) == targets_B
    return {"loss": loss, "accuracy": (correct_B * weights_B).sum(), "weight": weights_B.sum()}


def training_loss(
    params: Tree, batch: dict, *, model: nn.Module, rng: Array, label_smoothing: float
) -> dict[str, Array]:
    """Returns the sums of `cross_entropy` for a forward pass with dropout from `rng`.

    Sown losses are added (see `losses.forward`).
    """
    return _sums(model, params, batch, label_smoothing, train=True, rngs={"dropout": rng})[1]


def _sums(
    model: nn.Module, params: Tree, batch: dict, label_smoothing: float, **options: Any
) -> tuple[Array, dict[str, Array]]:
    """Returns (logits_BV, sums)."""
    logits_BV, sown = losses.forward(model, params, batch, **options)
    targets_B, weights_B = batch["targets"], batch["weights"]
    sums = cross_entropy(logits_BV, targets_B, weights_B, label_smoothing=label_smoothing)
    return logits_BV, losses.with_sown(sums, sown)


@functools.partial(jax.jit, static_argnames="model")
def probabilities(params: Tree, inputs: dict, *, model: nn.Module) -> Array:
    """Returns the probability of each class [B, V] in float32, without dropout."""
    return jax.nn.softmax(model.apply({"params": params}, **inputs, train=False), axis=-1)


def evaluation(
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
) -> Evaluation:
    """Returns the `Evaluation` of a split, which scores params on every item.

    `batches` has the split's items in order (seed None), one per row. `dataset` has the columns
    'label' and `unit` ('text', 'pair' or 'image'). `remedy` names the key to lower if memory is
    short.

    Scores are 'accuracy', 'macro_f1' (the mean F1 over classes that occur among the items or the
    predictions) and the mean of each further sum of the loss. Outputs are `dataset`, 'prediction'
    and its 'probability' per item, 'classes' with lines of LABEL, ITEMS, PRECISION, RECALL, F1, and
    'confusion' with lines of LABEL, PREDICTION, ITEMS.
    """
    loss = SplitSums(
        batches,
        functools.partial(_outcome, model=model, label_smoothing=label_smoothing),
        what=f"classify {split}",
        remedy=remedy,
        unit=unit,
    )

    def score(params: Tree) -> tuple[dict, dict]:
        sums, values = loss.score(params)
        # Restore the order of `dataset`: if the rows hold items 2 0 1, items 0 1 2 are rows 1 2 0.
        in_order = np.argsort(batches.items)
        targets, predictions, probabilities = (x[in_order] for x in values)
        weight = sums.pop("weight")
        counts = confusion(targets, predictions, len(labels))
        scores = {name: total / weight for name, total in sums.items()}
        # F1 is NaN for classes without items and predictions; nanmean leaves them out.
        scores["macro_f1"] = float(np.nanmean(precision_recall_f1(counts)[2]))
        probability = [f"{p:.4f}" for p in probabilities]
        outputs = report(counts, predictions, labels) | {"probability": probability}
        return scores, {**dataset, **outputs}

    def rows(scores: dict) -> dict[str, str]:
        return {
            "accuracy": f"{scores['accuracy']:.2%} of {quantity(count, unit)}",
            "macro F1": f"{scores['macro_f1']:.4f} of {len(labels)} classes",
            "loss": f"{scores['loss']:.4f}",
        }

    count = len(batches.items)
    columns = {"input": unit, "reference": "label", "output": "prediction"}
    return Evaluation(
        split=split,
        files=list(files),
        dataset=dataset,
        settings={f"{unit}s": count},
        columns={**columns, "measure": "probability"},
        score=score,
        rehearse=loss.rehearse,
        rows=rows,
    )


@functools.partial(jax.jit, static_argnames=("model", "label_smoothing"))
def _outcome(
    params: Tree, batch: dict, *, model: nn.Module, label_smoothing: float
) -> tuple[dict, tuple[Array, Array, Array]]:
    """Returns the sums without dropout, and (target, prediction, its probability) [B] each."""
    logits_BV, sums = _sums(model, params, batch, label_smoothing, train=False)
    # Only the prediction's probability, because [B, V] would be copied to the host.
    probability_B = jax.nn.softmax(logits_BV, axis=-1).max(axis=-1)
    return sums, (batch["targets"], logits_BV.argmax(axis=-1), probability_B)


def confusion(targets: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns the confusion matrix [V, V]: the items of class i predicted as class j."""
    # Index (i, j) by i * V + j: with V = 3, target 1 and prediction 2 have index 5.
    pairs = targets * num_classes + predictions
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def precision_recall_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each class's precision, recall and F1 from a confusion matrix, [V] each.

    Precision is 0 for a class that is never predicted, recall is 0 for a class without items, and
    F1, their harmonic mean, is NaN if both hold.
    """
    # Columns sum to the predictions of a class, rows to its items.
    correct, predicted, actual = np.diag(counts), counts.sum(axis=0), counts.sum(axis=1)
    # F1 is 2 P R / (P + R), with P = correct / predicted and R = correct / actual.
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
        # Only pairs that occur, because 1,000 classes have a million pairs.
        "confusion": [f"{labels[i]}\t{labels[j]}\t{counts[i, j]}" for i, j in np.argwhere(counts)],
    }
