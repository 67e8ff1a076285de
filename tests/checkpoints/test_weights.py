"""Which params are evaluated: the latest, the best, an average, and none that is damaged."""

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import flip_a_bit, load, restore, state

from transformer.distributed import layout
from transformer.errors import UserError


def test_weights_name_steps_and_an_average_is_their_float32_mean(saved, tmp_path):
    saved(2, 4, 6, 8, keep=4).save_best(4, state(4)[0], 1.0)
    averages = {1: [8], 3: [4, 6, 8], 20: [2, 4, 6, 8]}
    of_weights = [("latest", 1, [8]), ("best", 1, [4])]
    of_weights += [("average", average_last, steps) for average_last, steps in averages.items()]
    for weights, average_last, steps in of_weights:
        found, found_steps = load(tmp_path, weights, average_last)
        assert found_steps == steps
        trees = [state(step)[0] for step in steps]
        if len(steps) == 1:
            tiny.assert_same_bits(found, trees[0])
        mean = lambda *x: np.sum(np.asarray(x, np.float64), axis=0) / len(x)
        expected = jax.tree.map(mean, *trees)
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert x.dtype == np.float32
            assert x.sharding == layout.make_layout("jit", num_devices=1).replicated
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


OTHER = r"\A.*the vocabulary some pieces.*this run's is others.*\Z"  # one line


@pytest.mark.parametrize("weights", ["latest", "best", "average"])
def test_other_vocabulary_is_refused_by_name(three_steps, weights):
    with pytest.raises(UserError, match=OTHER):
        load(three_steps, weights, vocabulary="others")


def test_a_run_of_another_vocabulary_is_not_resumed(saved, opened):
    saved(1)
    with pytest.raises(UserError, match=OTHER):
        restore(opened(identity={"vocabulary": "others"}))


@pytest.mark.parametrize(("weights", "folder"), [("latest", "checkpoints"), ("best", "best")])
def test_weights_that_are_not_there_are_one_line(tmp_path, weights, folder):
    (tmp_path / "best").mkdir()
    with pytest.raises(UserError, match=rf"\A.*/{folder} holds no complete checkpoint.*\Z"):
        load(tmp_path, weights)


@pytest.mark.parametrize(
    ("weights", "file"), [("latest", "checkpoints/3"), ("average", "params/1"), ("best", "best/2")]
)
@pytest.mark.parametrize("name", ["params/d/*", "params/_METADATA", "checksums.json"])
def test_damaged_parameters_are_not_scored(copy, weights, file, name):
    damaged = next((copy / file).rglob(name))
    flip_a_bit(damaged)
    with pytest.raises(UserError, match=rf"\A.*{damaged} \(checksum mismatch\).*\Z"):
        load(copy, weights, average_last=3)
