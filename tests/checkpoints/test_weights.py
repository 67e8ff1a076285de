"""Which params are evaluated: the latest, the best, an average, and none that is damaged."""

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import flip_a_bit, load, one_line, restore, state

from transformer.distributed import layout


def test_weights_name_steps(saved, tmp_path):
    saved(2, 4, 6, 8, keep=4).save_best(4, state(4)[0], 1.0)
    assert load(tmp_path, "latest")[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "latest")[0], state(8)[0])
    assert load(tmp_path, "best")[1] == [4]
    assert load(tmp_path, "average", average_last=1)[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "average", average_last=1)[0], state(8)[0])
    assert load(tmp_path, "average", average_last=3)[1] == [4, 6, 8]
    assert load(tmp_path, "average", average_last=20)[1] == [2, 4, 6, 8]


def test_average_is_the_float32_mean(saved, tmp_path):
    saved(1, 2, 3)
    found, _ = load(tmp_path, "average")
    trees = [state(step)[0] for step in (1, 2, 3)]
    mean = lambda *x: np.sum(np.asarray(x, np.float64), axis=0) / 3
    expected = jax.tree.map(mean, *trees)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert x.dtype == np.float32
        assert x.sharding == layout.make_layout("jit", num_devices=1).replicated
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weights", ["latest", "best", "average"])
def test_other_vocabulary_is_refused_by_name(three_steps, weights):
    words = r"the vocabulary some pieces.*this run's is others"
    with pytest.raises(ValueError, match=words) as raised:
        load(three_steps, weights, vocabulary="others")
    one_line(raised)


def test_a_run_of_another_vocabulary_is_not_resumed(saved, opened):
    saved(1)
    with pytest.raises(ValueError, match=r"some pieces.*this run's is others") as raised:
        restore(opened(vocabulary="others"))
    one_line(raised)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("latest", r"/checkpoints holds no complete checkpoint yet"),
        ("best", "holds no complete checkpoint"),
    ],
)
def test_mistakes_about_weights(tmp_path, weights, words):
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match=words) as raised:
        load(tmp_path, weights)
    one_line(raised)


@pytest.mark.parametrize(
    ("weights", "file"), [("latest", "checkpoints/3"), ("average", "params/1"), ("best", "best/2")]
)
@pytest.mark.parametrize("name", ["params/d/*", "params/_METADATA", "checksums.json"])
def test_damaged_parameters_are_not_scored(copy, weights, file, name):
    damaged = next((copy / file).rglob(name))
    flip_a_bit(damaged)
    with pytest.raises(ValueError, match="checksum mismatch") as raised:
        load(copy, weights, average_last=3)
    one_line(raised)
    assert str(damaged) in str(raised.value)
