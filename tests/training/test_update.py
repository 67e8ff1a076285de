"""One update: Adam with the schedule; a non-finite update is skipped."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.mixer import Mixer

from transformer.distributed.layout import make_layout, state_shardings
from transformer.training.update import micro_batches

MIXER = Mixer(tiny.VOCABULARY, tiny.VOCABULARY, width=8)
TRANSFORMER = tiny.model(num_layers=1)  # whose loss makes logits in blocks
LAYOUTS = [("pmap", 1), ("pmap", 2), ("jit", 2)]


def batch(seed):
    random = np.random.default_rng(seed)
    rows = [tiny.pairs(random.integers(1, 7, (2, 2)).tolist(), seed=seed + i) for i in range(4)]
    return tiny.batch(rows, 14, 14)


def test_micro_batches_take_every_row_once_and_from_every_device():
    rows = np.arange(24)
    parts = np.asarray(micro_batches(rows, 3))
    assert parts.shape == (3, 8)
    assert sorted(parts.reshape(-1)) == rows.tolist()
    devices = np.repeat(np.arange(8), 3)
    for part in parts:
        assert devices[part].tolist() == list(range(8))


@functools.cache
def stepper(strategy, num_devices, clip_norm, accumulate, model=MIXER, **schedule):
    """Returns (train_step, first state) of a tiny model."""
    adam, layout = tiny.adam(clip_norm, **schedule), make_layout(strategy, num_devices=num_devices)
    state = tiny.first_state(layout, model, batch(0)["inputs"], adam)
    compiled = tiny.train_step(layout, state, model, adam, accumulate, **schedule)
    step = lambda state, rows: compiled(state, tiny.place(rows, layout))
    # New arrays at each call, because the step donates them.
    shardings = state_shardings(state, layout)
    own = jax.jit(lambda: jax.tree.map(jnp.asarray, state), out_shardings=shardings)
    return step, own


def test_the_first_update_is_step_1():
    """Adam's first update is sign(gradient) times the rate, which would be 0 at step 0."""
    step, start = stepper("pmap", 2, 0.0, 1)
    before = jax.tree.map(np.asarray, start().params)
    after, sums = step(start(), batch(0))
    moved = jax.tree.map(lambda x, y: np.abs(np.asarray(x) - y), after.params, before)
    most = max(leaf.max() for leaf in jax.tree.leaves(moved))
    assert most == pytest.approx(float(tiny.LEARNING_RATE(1)), rel=1e-3)
    assert float(sums["learning_rate"]) == pytest.approx(float(tiny.LEARNING_RATE(1)))


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "num_devices"), LAYOUTS, ids=str)
@pytest.mark.parametrize("options", [(0.0, 1, MIXER), (0.5, 2, TRANSFORMER)], ids=["", "clipped"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_non_finite_update_enters_the_state(strategy, num_devices, options, value):
    """The run equals one whose updates are skipped at these steps: batches advance, the schedule
    does not."""
    step, start = stepper(strategy, num_devices, *options)
    state, expected = start(), start()
    bad, skipped = {2, 4, 5}, []
    for t in range(7):
        rows, given = batch(t), batch(t)
        if t in bad:
            given["weights"][1, 0] = value
        state, sums = step(state, given)
        skipped.append(int(sums["skipped"]))
        assert np.isfinite(float(sums["loss"]) + float(sums["gradient_norm"])) == (t not in bad)
        if t in bad:
            expected = expected._replace(step=expected.step + 1, skipped=expected.skipped + 1)
        else:
            expected, _ = step(expected, rows)
            rate = tiny.LEARNING_RATE(t + 1 - skipped[-1])
            assert float(sums["learning_rate"]) == pytest.approx(float(rate))
        tiny.assert_same_bits(state, expected)
    assert skipped == [0, 0, 1, 1, 2, 3, 3]
    assert int(state.step) == 7


@pytest.mark.parametrize(("strategy", "num_devices"), LAYOUTS, ids=str)
def test_a_batch_without_tokens_changes_nothing_but_the_step(strategy, num_devices):
    """The dry run before the first step uses such batches."""
    step, start = stepper(strategy, num_devices, 0.0, 1)
    state, _ = step(start(), batch(0))
    expected = jax.tree.map(np.asarray, state)
    state, _ = step(state, jax.tree.map(np.zeros_like, batch(1)))
    tiny.assert_same_bits(state._replace(step=state.step - 1, skipped=state.skipped - 1), expected)


@pytest.mark.slow
def test_an_infinite_learning_rate_never_enters_the_params():
    infinite = lambda step: np.float32(np.inf)
    step, start = stepper("pmap", 2, 0.0, 1, schedule=infinite)
    expected = jax.tree.map(np.asarray, start())
    after, sums = step(start(), batch(0))
    assert np.isfinite(float(sums["loss"]) + float(sums["gradient_norm"]))
    assert not sums["finite"]
    assert int(sums["skipped"]) == 1
    tiny.assert_same_bits(after._replace(step=after.step - 1, skipped=after.skipped - 1), expected)
