"""The sums over a split: those of its batches, on any number of devices; None if stopped."""

import functools
import logging
import re

import flax.linen as nn
import jax
import numpy as np
import pytest

from transformer.data.batches import Batches
from transformer.data.packing import Rows
from transformer.distributed import layout
from transformer.models.ensemble import Ensemble
from transformer.tasks import losses
from transformer.tasks.evaluation import SplitSums

IDS = np.random.default_rng(0).integers(4, 13, 100).astype(np.uint16)
OPTIONS = {"label_smoothing": 0.1, "smoothed_over": "all_classes"}

WINDOWS = -(-len(IDS) // 8)  # rows of 8 ids, the last of 4


class Successor(nn.Module):
    """Logits of the id behind each id."""

    vocab_size: int = 13

    def setup(self):
        self.embed = nn.Embed(self.vocab_size, 16)
        self.dense = nn.Dense(self.vocab_size)

    def hidden(self, ids, *, train):
        return nn.tanh(self.embed(ids))

    def logits(self, x_BTD, dtype="float32"):
        return self.dense(x_BTD).astype(dtype)

    def __call__(self, ids, *, train):
        return self.logits(self.hidden(ids, train=train))


def assemble(items, row_of_item, shape, key):
    """Window i of IDS in each row; what is asked are the ids themselves."""
    targets, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for item, row in zip(items, row_of_item, strict=True):
        window = IDS[8 * item : 8 * item + 8]
        targets[row, : len(window)], weights[row, : len(window)] = window, 1
    shifted = np.pad(targets, ((0, 0), (1, 0)))[:, :-1]
    return {"inputs": {"ids": shifted}, "targets": targets, "weights": weights}


def whole():
    return assemble(range(WINDOWS), range(WINDOWS), (WINDOWS, 8), ())


@pytest.fixture(scope="module")
def run():
    model = Successor()
    return model, model.init(jax.random.key(0), whole()["inputs"]["ids"], train=False)["params"]


def split_sums(model, rows=3, blocks=1):
    """Sums over 100 ids, and the nats of each."""
    windows = Rows(8, np.arange(WINDOWS), np.arange(WINDOWS + 1))
    options = tuple({**OPTIONS, "blocks": blocks}.items())
    outcome = functools.partial(losses.sums_and_nats, model=model, options=options)
    return SplitSums(Batches([windows], rows * 8, None, assemble), outcome, what="score", remedy="")


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (3, 1), (3, 2), (3, 4), (20, 1)])
def test_sums_and_the_nats_of_each_token_are_those_of_one_large_batch(run, caplog, rows, blocks):
    """On one device and on eight; the nats are in the order of the tokens."""
    caplog.set_level(logging.INFO)
    model, params = run
    batch = whole()
    logits = model.apply({"params": params}, **batch["inputs"], train=False)
    expected = dict(losses.cross_entropy(logits, batch["targets"], batch["weights"], **OPTIONS))
    assert expected["weight"] == 100
    log_probs = np.asarray(jax.nn.log_softmax(logits)).reshape(-1, logits.shape[-1])
    # The last window alone has padding, at its end.
    expected_nats = -log_probs[np.arange(len(IDS)), IDS]
    place = layout.make_layout("pmap", (0, 1, 1)).replicated
    for on_devices in (params, jax.device_put(params, place)):
        sums, [nats] = split_sums(model, rows, blocks).score(on_devices)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), sums, expected)
        np.testing.assert_allclose(nats, expected_nats, rtol=1e-5)
    assert caplog.text.count("score: 13 rows") == 2  # those that hold ids


def test_blocks_never_hold_all_logits(run):
    model, params = run
    batch = split_sums(model).batches.rows(0, 0, 3)

    def compiled(blocks):
        static = {"model": model, "options": tuple({**OPTIONS, "blocks": blocks}.items())}
        return losses.sums_and_nats.lower(params, batch, **static).compile().as_text()

    V = model.vocab_size
    assert f"f32[3,8,{V}]" in compiled(1)
    assert f"f32[3,2,{V}]" in compiled(4)
    assert not re.search(rf"f32\[(3,8|24|4,3,2),{V}\]", compiled(4))


class Penalised(nn.Module):
    """Logits [B, T, 5] of numbers [B, T, 3], and two losses, of a row and of each position."""

    def setup(self):
        self.dense = nn.Dense(5)

    def hidden(self, numbers, *, train):
        self.sow("losses", "balance", numbers[:, 0, 0])
        self.sow("losses", "spread", (numbers**2).sum(axis=-1))
        self.sow("losses", "spread", numbers[..., 0])
        return numbers

    def logits(self, x_BTD, dtype="float32"):
        return self.dense(x_BTD).astype(dtype)

    def __call__(self, numbers, *, train):
        return self.logits(self.hidden(numbers, train=train))


@pytest.mark.parametrize("blocks", [1, 2])
def test_what_a_model_sows_is_added_to_the_loss_by_its_name(blocks):
    """Of rows that are not padding; in training as in evaluation."""
    numbers = np.random.default_rng(1).random((3, 4, 3), np.float32)
    batch = {"inputs": {"numbers": numbers}, "targets": np.zeros((3, 4), np.int32)}
    batch["weights"] = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], np.float32)
    model = Penalised()
    params = model.init(jax.random.key(0), numbers, train=False)["params"]
    logits = model.apply({"params": params}, numbers, train=False)
    plain = losses.cross_entropy(logits, batch["targets"], batch["weights"], **OPTIONS)
    expected = {
        "balance": numbers[:2, 0, 0].sum(),
        "spread": (numbers[:2] ** 2).sum() + numbers[:2, :, 0].sum(),
    }
    options = {"blocks": blocks, **OPTIONS}
    pairs = tuple(options.items())
    sums, _ = losses.sums_and_nats(params, batch, model=model, options=pairs)
    trained = losses.token_loss(params, batch, model=model, rng=jax.random.key(0), **options)
    both = {"members_0": params, "members_1": params}
    mean, _ = losses.sums_and_nats(both, batch, model=Ensemble((model, Penalised())), options=pairs)
    for found in (sums, trained, mean):
        assert {name: float(found[name]) for name in expected} == pytest.approx(expected, rel=1e-5)
        whole = plain["loss"] + sum(expected.values())
        assert float(found["loss"]) == pytest.approx(float(whole), rel=1e-5)
    with pytest.raises(ValueError, match="sows accuracy as a loss: this name is taken"):
        losses.with_sown(plain, {"accuracy": 1.0})
    per_token = losses.per_token({name: float(x) for name, x in sums.items()})
    assert per_token["balance"] == pytest.approx(expected["balance"] / 7, rel=1e-5)
