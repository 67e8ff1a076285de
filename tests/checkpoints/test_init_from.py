"""A new run starts from another run's params: by path and shape, or not at all."""

from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import checkpoints_of, flip_a_bit
from helpers.layouts import layout_of

from transformer.checkpoints import weights
from transformer.checkpoints.weights import flatten, unflatten
from transformer.distributed.layout import state_shardings
from transformer.errors import UserError

IDENTITY = {"vocabulary": "pieces", "labels": "good bad"}


def params(seed, classes=2):
    draw = lambda *shape: np.random.default_rng(seed).standard_normal(shape, np.float32)
    layer = {"inner": {"kernel": draw(8, 16)}, "outer": {"kernel": draw(16, 8)}}
    return {"encoder": layer, "head": {"kernel": draw(8, classes)}, "header": draw(3)}


def save(folder, identity=IDENTITY, **scores):
    """A run whose checkpoint of step 10 + i, of params(i), has a score."""
    checkpoints = checkpoints_of(folder, keep=3, identity=identity)
    for i, score in scores.items():
        step, place = int(i[1:]), layout_of("jit", 1).replicated
        tree = jax.device_put(params(step), place)
        checkpoints.save(step, tree, {"opt_state": (), "skipped": tree["header"]})
        checkpoints.save_best(step, tree, score)
    checkpoints.close()
    return folder


def load(folder, new=None, skip="", identity=IDENTITY, where=("jit", 1)):
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params(9) if new is None else new
    )
    return weights.load_init_from(str(folder), skip, identity, layout_of(*where), shapes)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(tmp_path_factory.mktemp("run"), s1=3.0, s2=5.0, s3=4.0)


@pytest.mark.parametrize(
    "where", [("pmap", 8), ("jit", 1), ("jit", 8, (2, 2, 2))], ids=lambda x: f"{x[0]}-{x[1]}"
)
def test_the_best_params_come_as_training_holds_them(saved, where):
    started = unflatten(flatten(params(9)) | load(saved, where=where))
    tiny.assert_same_bits(started, params(2))
    expected = state_shardings(params(9), layout_of(*where))
    for x, sharding in zip(jax.tree.leaves(started), jax.tree.leaves(expected), strict=True):
        assert x.sharding.is_equivalent_to(sharding, x.ndim)


def test_a_skipped_prefix_starts_anew(saved):
    """'head' is no prefix of 'header'; a new head may have another shape."""
    new = params(9, classes=5)
    started = unflatten(flatten(new) | load(saved, new, skip=" head , encoder/outer"))
    expected = {**params(2), "head": new["head"]}
    expected["encoder"] = {"inner": params(2)["encoder"]["inner"], "outer": new["encoder"]["outer"]}
    tiny.assert_same_bits(started, expected)


def test_a_head_that_only_the_other_run_has_can_be_skipped(saved):
    new = {name: x for name, x in params(9).items() if name != "head"}
    assert "head/kernel" not in load(saved, new, skip="head")
    with pytest.raises(UserError, match=r"head/kernel has the shape \(8, 2\), expected \(none\)"):
        load(saved, new)


@pytest.mark.parametrize(
    ("changes", "skip", "words"),
    [
        ({"head": {"kernel": np.zeros((8, 5))}}, "", "the shape .8, 2., expected .8, 5."),
        ({"footer": np.zeros(2)}, "", "footer has the shape .none., expected .2,."),
        ({}, "haed", r"config\.train\.init_skip: 'haed' must be a prefix"),
    ],
)
def test_any_other_mismatch_names_the_parameter(saved, changes, skip, words):
    with pytest.raises(UserError, match=rf"\A(?=.*config\.train\.init_skip).*{words}.*\Z"):
        load(saved, params(9) | changes, skip)


def test_another_identity_is_refused_unless_it_is_skipped(saved):
    other = IDENTITY | {"labels": "cat dog"}
    with pytest.raises(UserError, match=r"another labels than this run[^\n]*init_skip 'labels'"):
        load(saved, skip="head", identity=other)
    assert "head/kernel" not in load(saved, skip="head,labels", identity=other)
    assert load(saved, identity={"vocabulary": "pieces", "more": "not compared"})


def test_another_vocabulary_is_refused_with_the_folder_to_use(tmp_path):
    save(tmp_path, s1=1.0)
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "shared.model").touch()
    said = rf"\A.* --config.vocabulary.model={tmp_path}/vocabulary, or .*\Z"
    with pytest.raises(UserError, match=said):
        load(tmp_path, identity={"vocabulary": "others"})


def test_a_damaged_checkpoint_is_named(tmp_path):
    save(tmp_path, s1=1.0)
    files = filter(Path.is_file, (tmp_path / "best" / "1" / "params").rglob("*"))
    flip_a_bit(max(files, key=lambda path: path.stat().st_size))
    with pytest.raises(UserError, match=r"^damaged: "):
        load(tmp_path)
