"""Recurrent models train with the same numbers on eight devices."""

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.layouts import ADAM, assert_first_state_is_that_of_one_program, layout_of

from configs import multi30k_rnn
from transformer.distributed.layout import gather_params
from transformer.families.recurrent.recurrent import Recurrent

FIELDS = {**multi30k_rnn.get_config("additive").model, "d_model": 16, "dropout_rate": 0.0}


def batch(seed):
    """Sixteen rows of one pair, of very different lengths; the first two rows are empty."""
    lengths = np.random.default_rng(seed).integers(1, 9, (14, 2)).tolist()
    return tiny.batch([[], [], *[[pair] for pair in tiny.pairs(lengths, seed)]], 9, 9)


def model():
    sizes = {"source_vocab_size": tiny.VOCABULARY, "target_vocab_size": tiny.VOCABULARY}
    return Recurrent(**{**FIELDS, **sizes, "cell": "lstm"})


def run(layout, steps=8):
    """Returns the metrics of each step, and the params after the last."""
    state, curve = tiny.first_state(layout, model(), batch(0)["inputs"], ADAM), []
    step = tiny.train_step(layout, state, model(), ADAM)
    for t in range(steps):
        state, sums = step(state, tiny.place(batch(t), layout))
        curve.append({name: float(value) for name, value in sums.items()})
    return curve, jax.tree.map(np.asarray, gather_params(state.params, layout))


@pytest.mark.slow
def test_eight_devices_train_as_one():
    """Under pmap, and under jit with the state sharded over four of them."""
    curve, params = run(layout_of("jit", 1))
    losses = [sums["loss"] / sums["weight"] for sums in curve]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    for strategy, mesh in (("pmap", (8, 1, 1)), ("jit", (2, 4, 1))):
        found, found_params = run(layout_of(strategy, 8, mesh))
        for sums, expected in zip(found, curve, strict=True):
            assert sums == pytest.approx(expected, rel=1e-5)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), found_params, params)


@pytest.mark.slow
def test_a_first_state_is_that_of_one_program():
    assert_first_state_is_that_of_one_program(model(), "jit", (2, 2, 2))
