"""The sums over a split: those of its batches, on any number of devices; None if stopped."""

import functools
import logging

import jax
import numpy as np
import pytest
from helpers import language

from transformer.data import streams
from transformer.data.batches import Batches
from transformer.distributed import layout
from transformer.tasks import losses
from transformer.tasks.split_loss import SplitLoss

IDS = np.random.default_rng(0).integers(4, 13, 100).astype(np.uint16)
OPTIONS = {"label_smoothing": 0.1, "smoothed_over": "all_classes"}


@pytest.fixture(scope="module")
def run():
    model = language.model()
    return model, language.parameters(model)


def split_loss(model, rows=3):
    assemble = functools.partial(streams.assemble, IDS)
    batches = Batches([streams.windows(len(IDS), 8)], rows * 8, None, assemble)
    return SplitLoss(batches, model, tuple(OPTIONS.items()), what="score", remedy="")


def of_split(run, params=None, rows=3, **changes):
    model, own = run
    return split_loss(model, rows).sums(own if params is None else params, **changes)


def test_the_sums_are_those_of_one_large_batch(run, caplog):
    caplog.set_level(logging.INFO)
    model, params = run
    batch = language.whole_stream(IDS, 8)
    logits = model.apply({"params": params}, **batch["inputs"], train=False)
    expected = losses.cross_entropy(logits, batch["targets"], batch["weights"], **OPTIONS)
    assert expected["weight"] == 100
    for rows in (1, 3, 20):
        sums = of_split(run, rows=rows)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), sums, dict(expected))
    assert "score: 20 rows" in caplog.text
    place = layout.make_layout("pmap", (0, 1, 1)).replicated
    sums = of_split(run, jax.device_put(params, place))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), sums, dict(expected))


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_nats_are_of_each_token_in_order(run, rows):
    model, params = run
    batch = language.whole_stream(IDS, 8)
    logits = model.apply({"params": params}, **batch["inputs"], train=False)
    log_probs = np.asarray(jax.nn.log_softmax(logits)).reshape(-1, logits.shape[-1])
    expected = -log_probs[np.arange(len(IDS)), IDS]  # the last window alone has padding, at its end
    sums, nats = split_loss(model, rows).sums_and_nats(params)
    np.testing.assert_allclose(nats, expected, rtol=1e-5)
    assert sums["nats_per_token"] == pytest.approx(nats.sum(), rel=1e-5)


def test_a_split_that_is_stopped_has_no_loss(run):
    answers = iter([False, False, True])
    assert of_split(run, should_stop=lambda: next(answers)) is None
    assert next(answers, "none left") == "none left"
