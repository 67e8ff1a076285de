"""A classifier's loss and scores equal plain loops over the items, on any number of devices."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from transformer.data.batches import Batches
from transformer.data.packing import Rows
from transformer.distributed import layout
from transformer.families.labels import classifiers

LABELS = ("a", "b", "c", "d")  # no item is a "c"
NUMBERS = np.random.default_rng(0).normal(size=(37, 5)).astype(np.float32)
CLASSES = np.random.default_rng(1).choice([0, 1, 3], 37)


class Linear(nn.Module):
    penalty: float = 0.0

    @nn.compact
    def __call__(self, numbers, *, train):
        if self.penalty:
            self.sow("losses", "penalty", self.penalty * numbers[:, 0] ** 2)
        return nn.Dense(len(LABELS))(numbers)


def assemble(items, row_of_item, shape, key=()):
    numbers = np.zeros((shape[0], 5), np.float32)
    targets, weights = np.zeros(shape[0], np.int32), np.zeros(shape[0], np.float32)
    numbers[row_of_item], targets[row_of_item] = NUMBERS[items], CLASSES[items]
    weights[row_of_item] = 1
    return {"inputs": {"numbers": numbers}, "targets": targets, "weights": weights}


def evaluator(rows_per_batch=8, label_smoothing=0.0, penalty=0.0):
    order = np.random.default_rng(2).permutation(37)  # as sorted by length
    return classifiers.evaluation(
        Linear(penalty),
        Batches([Rows(1, order, np.arange(38))], rows_per_batch, None, assemble),
        split="test",
        files=["test.tsv"],
        dataset={"label": [LABELS[i] for i in CLASSES]},
        labels=LABELS,
        unit="item",
        label_smoothing=label_smoothing,
        remedy="",
    )


@pytest.fixture(scope="module")
def params():
    return Linear().init(jax.random.key(3), jnp.zeros((1, 5)), train=False)["params"]


@pytest.fixture(scope="module")
def logits(params):
    return NUMBERS @ np.asarray(params["Dense_0"]["kernel"])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_divergence_from_the_smoothed_class(logits, smoothing):
    """The Kullback-Leibler divergence, so that a perfect prediction has loss 0."""
    weights = (np.arange(37) % 3 > 0).astype(np.float32)
    expected = np.eye(4)[CLASSES] * (1 - smoothing) + smoothing / 4
    entropy = -sum(p * math.log(p) for p in expected[0] if p > 0)
    losses = -(expected * special.log_softmax(logits, axis=-1)).sum(axis=-1) - entropy
    sums = classifiers.cross_entropy(logits, CLASSES, weights, label_smoothing=smoothing)
    assert sums["loss"] == pytest.approx((losses * weights).sum(), rel=1e-5)
    correct = (logits.argmax(axis=-1) == CLASSES) * weights
    assert (sums["accuracy"], sums["weight"]) == (correct.sum(), weights.sum())
    assert 0 < correct.sum() < weights.sum()


def test_of_equal_logits_one_is_the_prediction():
    sums = classifiers.cross_entropy(
        np.zeros((4, 4)), np.arange(4), np.ones(4), label_smoothing=0.0
    )
    assert sums["accuracy"] == 1


@pytest.mark.parametrize("devices", [1, 8])
def test_scores_are_those_of_a_loop_over_the_items(params, logits, devices):
    test = evaluator(rows_per_batch=9)
    place = layout.make_layout("pmap", (0, 1, 1), devices).replicated
    scores, outputs = test.score(jax.device_put(params, place))
    predicted = logits.argmax(axis=-1)
    assert outputs["prediction"] == [LABELS[i] for i in predicted]
    probabilities = special.softmax(logits, axis=-1).max(axis=-1)
    np.testing.assert_allclose([float(p) for p in outputs["probability"]], probabilities, atol=6e-5)
    losses = -special.log_softmax(logits, axis=-1)[np.arange(37), CLASSES]
    assert scores["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert scores["accuracy"] == pytest.approx((predicted == CLASSES).mean())
    f1 = []
    for label in range(4):
        true = sum(p == c == label for p, c in zip(predicted, CLASSES, strict=True))
        either = (predicted == label).sum() + (label == CLASSES).sum()
        f1 += [2 * true / either] if either else []
    assert scores["macro_f1"] == pytest.approx(np.mean(f1))
    assert 0 < scores["macro_f1"] < 1
    counts = {tuple(line.split("\t")) for line in outputs["confusion"]}
    pairs = [(LABELS[c], LABELS[p]) for c, p in zip(CLASSES, predicted, strict=True)]
    assert counts == {(*pair, str(pairs.count(pair))) for pair in pairs}
    assert [line.split("\t")[:2] for line in outputs["classes"]] == [
        [label, str((i == CLASSES).sum())] for i, label in enumerate(LABELS)
    ]
    assert test.rows(scores)["accuracy"] == f"{scores['accuracy']:.2%} of 37 items"


def test_scores_do_not_depend_on_the_batches(params):
    one, other = (evaluator(n, 0.1, 0.5).score(params)[0] for n in (4, 37))
    assert one == pytest.approx(other, rel=1e-5)
    assert one["penalty"] > 0


def test_a_class_of_no_item_and_no_prediction_has_no_f1():
    counts = np.array([[3, 1, 0], [0, 2, 0], [0, 0, 0]])
    precision, recall, f1 = classifiers.precision_recall_f1(counts)
    np.testing.assert_allclose(precision, [1, 2 / 3, 0])
    np.testing.assert_allclose(recall, [3 / 4, 1, 0])
    np.testing.assert_allclose(f1, [6 / 7, 4 / 5, np.nan])
