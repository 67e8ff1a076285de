"""Which params are evaluated: the latest, the best, an average, and none that is damaged."""

import shutil

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import flip_a_bit, load, one_line, restore, state

from transformer.checkpoints import weights
from transformer.distributed import layout


def test_weights_name_steps(opened, tmp_path):
    checkpoints = opened(keep=4)
    for step in (2, 4, 6, 8):
        checkpoints.save(step, *state(step))
    checkpoints.save_best(4, state(4)[0], 1.0)
    opened(keep=4)
    assert load(tmp_path, "latest")[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "latest")[0], state(8)[0])
    assert load(tmp_path, "best")[1] == [4]
    assert load(tmp_path, "average", average_last=1)[1] == [8]
    tiny.assert_same_bits(load(tmp_path, "average", average_last=1)[0], state(8)[0])
    assert load(tmp_path, "average", average_last=3)[1] == [4, 6, 8]
    assert load(tmp_path, "average", average_last=20)[1] == [2, 4, 6, 8]


def test_average_is_the_float32_mean(opened, tmp_path):
    checkpoints = opened()
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    opened()
    found, _ = load(tmp_path, "average")
    trees = [state(step)[0] for step in (1, 2, 3)]
    mean = lambda *x: np.sum(np.asarray(x, np.float64), axis=0) / 3
    expected = jax.tree.map(mean, *trees)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


def test_loaded_parameters_go_where_they_are_wanted(opened, tmp_path):
    checkpoints = opened()
    for step in (1, 2):
        checkpoints.save(step, *state(step, 8))
    opened()
    for which in ("latest", "average"):
        for leaf in jax.tree.leaves(load(tmp_path, which)[0]):
            assert isinstance(leaf, jax.Array)
            assert leaf.sharding == layout.make_layout("jit", num_devices=1).replicated


@pytest.mark.parametrize("weights", ["latest", "best", "average"])
def test_other_vocabulary_is_refused_by_name(opened, tmp_path, weights):
    checkpoints = opened()
    checkpoints.save(1, *state(1))
    checkpoints.save(2, *state(2))
    checkpoints.save_best(1, state(1)[0], 1.0)
    opened()
    with pytest.raises(ValueError, match=r"the vocabulary some pieces.*this run's is others") as e:
        load(tmp_path, weights, vocabulary="others")
    one_line(e)
    with pytest.raises(ValueError, match=r"the vocabulary some pieces.*this run's is others") as e:
        restore(opened(vocabulary="others"))
    one_line(e)


def test_mistakes_about_weights(opened, tmp_path):
    with pytest.raises(ValueError, match=r"one of .*'latest', found 'newest'") as raised:
        load(tmp_path, "newest")
    one_line(raised)
    with pytest.raises(ValueError, match=r"nothing has been saved in .* yet") as raised:
        load(tmp_path, "latest")
    one_line(raised)
    opened()
    with pytest.raises(ValueError, match="holds no complete checkpoint") as raised:
        load(tmp_path, "best")
    one_line(raised)


@pytest.mark.parametrize(
    ("weights", "file"),
    [("latest", "checkpoints/3"), ("average", "checkpoints/1"), ("best", "best/2")],
)
@pytest.mark.parametrize("name", ["params/d/*", "params/_METADATA", "checksums.json"])
def test_damaged_parameters_are_not_scored(three_steps, tmp_path, weights, file, name):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    damaged = next((copy / file).rglob(name))
    flip_a_bit(damaged)
    with pytest.raises(ValueError, match="checksum mismatch") as raised:
        load(copy, weights, average_last=3)
    one_line(raised)
    assert str(damaged) in str(raised.value)


def test_of_two_bests_a_damaged_one_is_named_and_not_used(three_steps, tmp_path, caplog):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    shutil.copytree(copy / "best" / "2", copy / "best" / "1")
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    assert load(copy, "best")[1] == [1]
    assert f"damaged: {copy / 'best' / '2'}" in caplog.text


@pytest.mark.parametrize("which", ["latest", "average", "best"])
def test_a_step_deleted_while_it_is_read_is_read_again(three_steps, tmp_path, monkeypatch, which):
    """Deleted by a run that trains in the same workdir, here between listing and reading."""
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    place = copy / ("best" if which == "best" else "checkpoints")
    step = 2 if which == "best" else 3
    read = weights._chosen

    def delete_first(*arguments):
        if (place / str(step)).exists():
            shutil.copytree(place / str(step), place / "4")
            (place / str(step) / "checksums.json").unlink()
            shutil.rmtree(place / str(step) / "params")
            shutil.rmtree(place / str(step))
        return read(*arguments)

    monkeypatch.setattr(weights, "_chosen", delete_first)
    parameters, found = load(copy, which)
    assert found == ([1, 2, 4] if which == "average" else [4])
    if which != "average":
        tiny.assert_same_bits(parameters, state(step)[0])
