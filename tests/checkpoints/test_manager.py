"""Checkpoints are restored bit for bit, also on other devices and after an interrupted save."""

import errno
import json
import os
import pathlib
import shutil
import time

import jax
import numpy as np
import optax
import pytest
from helpers import tiny

from transformer.checkpoints import manager, store, weights
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.modes import verify
from transformer.storage import checksums, paths

VOCABULARY = "some pieces"
ADAM = optax.adam(0.1)


def state(seed, num_devices=1):
    """Returns random (params, opt_state), with values that a cast would change."""
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape, np.float32)
    parameters = {"embedding": {"embedding": draw(300, 16)}, "layer_0": {"kernel": draw(16, 2, 8)}}
    parameters["layer_0"]["bias"] = np.array([-0.0, 1e-45, np.inf, np.nan, 1 / 3], np.float32)
    whole = layout.make_layout("jit", num_devices=num_devices).replicated
    optimizer_state = jax.tree.map(
        lambda x: draw(*x.shape) if x.ndim else np.int32(seed + 1), ADAM.init(parameters)
    )
    return jax.device_put((parameters, optimizer_state), whole)


def abstract(tree, num_devices=1):
    whole = layout.make_layout("jit", num_devices=num_devices).replicated
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), tree)


@pytest.fixture
def opened(tmp_path):
    """A function that opens the workdir's checkpoints as a new process would; closed at the end."""
    managers = []

    def open_again(keep=3, every=1, vocabulary=VOCABULARY, best_is="highest"):
        if managers:
            managers.pop().close()
        identity = {"vocabulary": vocabulary}
        options = {"keep": keep, "every": every, "identity": identity, "best_is": best_is}
        managers.append(manager.Checkpoints(tmp_path, **options))
        return managers[-1]

    yield open_again
    while managers:
        managers.pop().close()


def checkpoints_of(workdir, keep):
    identity = {"vocabulary": VOCABULARY}
    return manager.Checkpoints(workdir, keep=keep, every=1, identity=identity, best_is="highest")


def restore(checkpoints, num_devices=1):
    return checkpoints.restore(*abstract(state(0), num_devices))


def load(workdir, which, average_last=3, every=1, vocabulary=VOCABULARY):
    options = {"weights": which, "average_last": average_last, "every": every}
    return weights.load(workdir, abstract(state(0)[0]), {"vocabulary": vocabulary}, **options)


def steps(folder):
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def one_line(raised):
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_nothing_saved_is_none(opened):
    assert restore(opened()) is None


def test_round_trip_is_bit_equal(opened):
    opened().save(7, *state(1))
    step, *found = restore(opened())
    assert step == 7
    tiny.assert_same_bits(tuple(found), state(1))
    # The optimizer's own types are restored too, or the next update would not compile.
    assert isinstance(found[1][0], optax.ScaleByAdamState)


@pytest.mark.parametrize("num_devices", [1, 8])
def test_arrays_may_be_donated_once_save_returns(opened, num_devices):
    """On a CPU a host copy may share memory with the array, which the next step overwrites."""
    draw = lambda: np.random.default_rng(0).standard_normal((1500, 1000), np.float32)
    whole = layout.make_layout("jit", num_devices=num_devices).replicated
    parameters, moments = jax.device_put(({"kernel": draw()}, {"moment": draw()}), whole)

    @jax.jit
    def unchanged(tree):  # outputs of a compiled program, as those of the train step
        return jax.tree.map(lambda x: x + 0, tree)

    overwrite = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0 - 1, tree), donate_argnums=0)
    parameters, moments, spare = map(unchanged, (parameters, moments, moments))
    jax.block_until_ready((overwrite(unchanged(parameters)), overwrite(spare)))  # compiles both
    assert spare["moment"].is_deleted()

    checkpoints = opened()
    checkpoints.save(1, parameters, moments)
    for _ in range(20):
        parameters, moments = overwrite(parameters), overwrite(moments)
    jax.block_until_ready((parameters, moments))

    likes = abstract(({"kernel": draw()}, {"moment": draw()}))
    step, *found = opened().restore(*likes)
    assert step == 1
    tiny.assert_same_bits(tuple(found), ({"kernel": draw()}, {"moment": draw()}))


def with_opt_state(workdir):
    return [step for step in steps(workdir) if (workdir / str(step) / "opt_state").exists()]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_keeps_the_last_parameters_and_two_optimizer_states(opened, tmp_path, keep):
    checkpoints = opened(keep=keep)
    for step in (1, 2, 5, 6, 9):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=keep)
    assert steps(tmp_path / "checkpoints") == [1, 2, 5, 6, 9][-keep:]
    assert with_opt_state(tmp_path / "checkpoints") == [6, 9][-keep:]
    step, *found = restore(checkpoints)
    assert step == 9
    tiny.assert_same_bits(tuple(found), state(9))
    assert load(tmp_path, "average", average_last=keep)[1] == [1, 2, 5, 6, 9][-keep:]


def test_a_step_is_saved_once(opened, tmp_path, monkeypatch):
    """A run resumed and stopped at once does not rewrite its only complete checkpoint."""
    opened().save(1, *state(1))
    checkpoints = opened()
    monkeypatch.setattr(store.CheckpointStore, "save", None)
    assert checkpoints.save(1, *state(1))


def test_stopped_runs_steps_do_not_count(opened, tmp_path):
    """Steps saved on a signal (7, 11, 13) lie between the checkpoints to keep and average."""
    checkpoints = opened(keep=3, every=5)
    for step in (5, 7, 10, 11, 13):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=3, every=5)
    assert restore(checkpoints)[0] == 13
    assert load(tmp_path, "latest", every=5)[1] == [13]
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 13]
    checkpoints.save(15, *state(15))
    checkpoints = opened(keep=3, every=5)
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 15]  # as without the signals
    checkpoints.save(20, *state(20))
    opened()
    assert load(tmp_path, "average", every=5)[1] == [10, 15, 20]
    assert steps(tmp_path / "checkpoints") == [10, 15, 20]


def test_best_is_kept_apart_until_a_higher_bleu(opened, tmp_path):
    checkpoints = opened(keep=1)
    checkpoints.save(1, *state(1))
    scores = {1: 3.0, 2: 5.0, 3: 5.0, 4: 4.9, 5: 5.1, 6: 0.0}
    kept = [checkpoints.save_best(t, state(t)[0], bleu) for t, bleu in scores.items()]
    assert kept == [True, True, False, False, True, False]
    for step in (5, 6, 7):
        checkpoints.save(step, *state(step))
    checkpoints = opened(keep=1)
    assert steps(tmp_path / "best") == [5]
    assert 5 not in steps(tmp_path / "checkpoints")
    assert not checkpoints.save_best(8, state(8)[0], 5.1)  # the best so far is read from disk
    parameters, found = load(tmp_path, "best")
    assert found == [5]
    tiny.assert_same_bits(parameters, state(5)[0])


def test_the_best_may_be_the_lowest(opened, tmp_path):
    checkpoints = opened(best_is="lowest")
    checkpoints.save(1, *state(1))
    scores = {1: float("nan"), 2: 5.0, 3: 5.0, 4: 4.9, 5: 5.1}
    kept = [checkpoints.save_best(t, state(t)[0], score) for t, score in scores.items()]
    assert kept == [False, True, False, True, False]
    assert load(tmp_path, "best")[1] == [4]


def test_resumed_run_may_find_its_best_at_an_earlier_step(opened, tmp_path):
    opened().save(5, *state(5))
    assert opened().save_best(9, state(9)[0], 1.0)
    assert opened().save_best(6, state(6)[0], 2.0)
    parameters, found = load(tmp_path, "best")
    assert found == [6]
    tiny.assert_same_bits(parameters, state(6)[0])


def test_of_two_bests_the_better_one_counts(opened, tmp_path, monkeypatch):
    """A run was killed before it deleted the old best; the better one may be the earlier step."""
    checkpoints = opened()
    checkpoints.save(5, *state(5))
    with monkeypatch.context() as patch:
        patch.setattr(store.CheckpointStore, "delete", lambda self, step: None)
        assert checkpoints.save_best(9, state(9)[0], 1.0)
        assert checkpoints.save_best(6, state(6)[0], 2.0)
    checkpoints = opened()
    assert steps(tmp_path / "best") == [6, 9]
    assert load(tmp_path, "best")[1] == [6]
    assert not checkpoints.save_best(10, state(10)[0], 1.5)
    assert checkpoints.save_best(11, state(11)[0], 2.5)
    assert steps(tmp_path / "best") == [11]


@pytest.mark.parametrize("files", [0, 3])
def test_a_best_that_was_being_deleted_is_not_used(three_steps, tmp_path, files):
    """However many files are left: the newer best is complete, and training deletes the rest."""
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    half = copy / "best" / "1"
    shutil.copytree(copy / "best" / "2", half)
    (half / "checksums.json").unlink()
    for file in [path for path in half.rglob("*") if path.is_file()][:files]:
        file.unlink()
    assert load(copy, "best")[1] == [2]
    checkpoints = checkpoints_of(copy, keep=3)
    assert restore(checkpoints)[0] == 3
    checkpoints.close()
    assert steps(copy / "best") == [2]


def test_of_two_bests_a_damaged_one_is_named_and_not_used(three_steps, tmp_path, caplog):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    shutil.copytree(copy / "best" / "2", copy / "best" / "1")
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    assert load(copy, "best")[1] == [1]
    assert f"damaged: {copy / 'best' / '2'}" in caplog.text


def test_no_best_without_a_checkpoint_to_go_on_from(opened, tmp_path, caplog):
    """A run killed at that moment could not be resumed, and would be refused forever."""
    checkpoints = opened()
    assert not checkpoints.save_best(1, state(1)[0], 1.0)
    assert "no checkpoint could be saved yet" in caplog.text
    checkpoints.save(1, *state(1))
    assert checkpoints.save_best(1, state(1)[0], 1.0)


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
    with pytest.raises(ValueError, match=r"one of .*'latest'.*, found 'newest'") as raised:
        load(tmp_path, "newest")
    one_line(raised)
    with pytest.raises(ValueError, match=r"nothing has been saved in .* yet") as raised:
        load(tmp_path, "latest")
    one_line(raised)
    opened()
    with pytest.raises(ValueError, match="holds no complete checkpoint") as raised:
        load(tmp_path, "best")
    one_line(raised)


# Interrupted saves


@pytest.mark.parametrize("lost", ["checksums.json", "opt_state", "."])
def test_a_save_that_was_cut_off_is_dropped_and_can_be_saved_again(opened, tmp_path, lost):
    checkpoints = opened()
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    opened()
    newest = tmp_path / "checkpoints" / "3"
    (newest / "checksums.json").unlink()  # it is written last
    if lost != "checksums.json":
        shutil.rmtree(newest / lost)
    checkpoints = opened()
    step, *found = restore(checkpoints)
    assert step == 2
    tiny.assert_same_bits(tuple(found), state(2))
    assert steps(tmp_path / "checkpoints") == [1, 2]
    checkpoints.save(3, *state(33))
    step, *found = restore(opened())
    assert step == 3
    tiny.assert_same_bits(tuple(found), state(33))


def test_a_first_save_that_was_cut_off_is_set_aside(opened, tmp_path, caplog):
    opened().save(1, *state(1))
    opened()
    (tmp_path / "checkpoints" / "1" / "checksums.json").unlink()
    assert not manager.resumable(tmp_path)
    checkpoints = opened()
    assert restore(checkpoints) is None
    assert "kept as incomplete-1" in caplog.text
    assert (tmp_path / "checkpoints" / "incomplete-1" / "params").is_dir()
    checkpoints.save(1, *state(11))  # the new run reaches the same step
    step, *found = restore(opened())
    assert step == 1
    tiny.assert_same_bits(tuple(found), state(11))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def strip_opt_states(workdir):
    for folder in (workdir / "checkpoints").iterdir():
        (folder / "checksums.json").write_bytes(checksums.content_without(folder, "opt_state/"))
        shutil.rmtree(folder / "opt_state", ignore_errors=True)


def strip_checksums(workdir):
    for path in workdir.rglob("checksums.json"):
        path.unlink()


@pytest.mark.parametrize(
    "thin",
    [
        strip_opt_states,
        strip_checksums,
        lambda workdir: shutil.rmtree(workdir / "checkpoints"),
        lambda workdir: (shutil.rmtree(workdir / "checkpoints"), strip_checksums(workdir)),
    ],
    ids=["no opt_state", "no checksums", "best alone", "best alone, incomplete"],
)
def test_what_was_trained_and_cannot_be_resumed_is_refused(three_steps, tmp_path, thin):
    """Such as a copy made to translate with: nothing of it is deleted."""
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    thin(copy)
    before = contents(copy)
    with pytest.raises(UserError, match=r"resumed; nothing was changed; give") as raised:
        manager.resumable(copy)
    one_line(raised)
    checkpoints = checkpoints_of(copy, keep=1)
    with pytest.raises(UserError, match="nothing was changed"):
        restore(checkpoints)
    checkpoints.close()
    assert contents(copy) == before


def test_nothing_settles_a_workdir_but_a_step(tmp_path):
    assert not manager.resumable(tmp_path)
    (tmp_path / "checkpoints" / "7.orbax-checkpoint-tmp").mkdir(parents=True)
    (tmp_path / "best").mkdir()
    assert not manager.resumable(tmp_path)


@pytest.mark.parametrize("keep", [1, 3])
def test_failed_saves_push_nothing_out(opened, tmp_path, no_file_over, keep, caplog):
    """However many saves fail, a step to resume from stays: no step is deleted to make room."""
    checkpoints = opened(keep=keep)
    checkpoints.save(1, *state(1))
    checkpoints.save(2, *state(2))
    assert checkpoints.finish()
    whole = steps(tmp_path / "checkpoints")
    with no_file_over(4096):
        for step in range(3, 6):
            assert checkpoints.save(step, *state(step))  # begun
            assert not checkpoints.finish()
            assert f"step {step} was not saved" in caplog.text
            assert steps(tmp_path / "checkpoints") == whole
    step, *found = restore(opened(keep=keep))
    assert step == 2
    tiny.assert_same_bits(tuple(found), state(2))
    assert opened(keep=keep).save(7, *state(7))
    assert restore(opened(keep=keep))[0] == 7


def test_a_step_without_room_for_its_checksums_is_incomplete(opened, tmp_path, monkeypatch):
    checkpoints = opened(keep=1)
    checkpoints.save(1, *state(1))
    assert checkpoints.finish()

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(paths, "write_file", full)
        checkpoints.save(2, *state(2))
        assert not checkpoints.finish()
        assert checkpoints.newest() == 1
    assert checkpoints.save(3, *state(3))
    assert checkpoints.finish()
    assert steps(tmp_path / "checkpoints") == [3]


def test_a_checkpoint_is_on_the_disk_before_its_checksums(opened, tmp_path, monkeypatch):
    """And checksums before an older step is deleted: a power failure leaves one of them."""
    done = []
    sync, write, delete = paths.sync, paths.write_file, store.CheckpointStore.delete
    monkeypatch.setattr(paths, "sync", lambda path: (done.append("sync"), sync(path)))
    monkeypatch.setattr(paths, "write_file", lambda *a: (done.append("checksums"), write(*a)))
    monkeypatch.setattr(
        store.CheckpointStore, "delete", lambda *a: (done.append("delete"), delete(*a))
    )
    checkpoints = opened(keep=1)
    for step in (1, 2):
        checkpoints.save(step, *state(step))
    assert checkpoints.finish()
    assert done == ["sync", "checksums"] * 2 + ["delete"]


def test_best_of_steps_that_come_again_stays_until_there_is_a_new_one(opened, tmp_path):
    """Killed after a validation, before the checkpoint: the resumed run may score differently."""
    checkpoints = opened()
    checkpoints.save(2, *state(2))
    checkpoints.save_best(3, state(3)[0], 5.0)
    checkpoints = opened()
    assert restore(checkpoints)[0] == 2
    assert load(tmp_path, "best")[1] == [3]
    assert not checkpoints.save_best(3, state(33)[0], np.nan)
    assert steps(tmp_path / "best") == [3]
    assert checkpoints.save_best(3, state(33)[0], 4.0)
    assert not checkpoints.save_best(4, state(4)[0], 3.9)
    tiny.assert_same_bits(load(tmp_path, "best")[0], state(33)[0])


@pytest.mark.parametrize("wrong", ["checksums_of", "write_file"])
def test_saves_that_fail_after_orbax_leave_nothing(opened, tmp_path, monkeypatch, wrong):
    """A quota error appears at the sync or at the checksums. A partial step takes room from the
    next one, and several of them would be refused forever."""
    checkpoints = opened()

    def full(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(checksums if wrong == "checksums_of" else paths, wrong, full)
        for step in (1, 2, 3):
            assert checkpoints.save(step, *state(step))  # begun
            assert not checkpoints.finish()
            assert steps(tmp_path / "checkpoints") == []
    checkpoints = opened()
    assert restore(checkpoints) is None
    checkpoints.save(4, *state(4))
    assert restore(opened())[0] == 4


def test_a_disk_that_is_full_once_a_step_is_complete_ends_nothing(
    opened, tmp_path, monkeypatch, caplog
):
    """Dropping the optimizer state of an older step writes a file, which fails here."""
    checkpoints = opened(keep=5)
    drop = store.CheckpointStore.drop

    def full(self, step, item):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.CheckpointStore, "drop", full)
        for step in (1, 2, 3):
            assert checkpoints.save(step, *state(step))
        assert checkpoints.finish()
    assert "cannot delete an old checkpoint" in caplog.text
    assert with_opt_state(tmp_path / "checkpoints") == [1, 2, 3]
    assert drop is store.CheckpointStore.drop
    assert checkpoints.save(4, *state(4))
    assert checkpoints.finish()
    assert with_opt_state(tmp_path / "checkpoints") == [3, 4]


def test_a_folder_in_which_nothing_can_be_made_is_said_before_orbax(
    opened, tmp_path, monkeypatch, caplog
):
    """Inside Orbax's save a failing process would leave the others waiting at a barrier."""
    checkpoints = opened()
    monkeypatch.setattr(store.CheckpointStore, "save", None)
    (tmp_path / "checkpoints").rmdir()
    assert not checkpoints.save(1, *state(1))
    assert "step 1 was not saved: [Errno 2]" in caplog.text


def test_steps_of_another_version_of_this_code_are_not_trained_over(tmp_path):
    for part in ("parameters", "optimizer"):
        (tmp_path / "checkpoints" / part / "100").mkdir(parents=True)
    with pytest.raises(UserError, match=r"\(steps 100\), but no .* it cannot be resumed"):
        manager.resumable(tmp_path)


# Damage


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def zero_a_block(path):
    content = bytearray(path.read_bytes())
    start = len(content) // 4
    block = max(1, min(512, len(content) // 2))
    content[start : start + block] = bytes(block)
    path.write_bytes(content)


DAMAGES = [truncate, pathlib.Path.unlink, flip_a_bit, zero_a_block]


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    """A workdir with steps 1, 2 and 3, of which 2 is the best."""
    workdir = tmp_path_factory.mktemp("runs") / "three"
    checkpoints = checkpoints_of(workdir, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    checkpoints.save_best(2, state(2)[0], 5.0)
    assert checkpoints.close()
    return workdir


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_damaged_file_changes_weights_in_silence(three_steps, tmp_path, damage, caplog):
    """For every file of the newest step: that step is restored bit for bit, or the one before."""
    newest = three_steps / "checkpoints" / "3"
    files = [path for path in newest.rglob("*") if path.is_file()]
    assert len(files) > 20
    for file in files:
        copy = tmp_path / "copy"
        shutil.copytree(three_steps, copy)
        damage(copy / file.relative_to(three_steps))
        caplog.clear()
        checkpoints = checkpoints_of(copy, keep=3)
        step, *found = restore(checkpoints)
        checkpoints.close()
        assert step == 2
        tiny.assert_same_bits(tuple(found), state(2))
        named = copy / file.relative_to(three_steps)
        if damage is not pathlib.Path.unlink or file.name != "checksums.json":  # incomplete
            assert f"damaged: {named}" in caplog.text
        assert steps(copy / "checkpoints") == [1, 2]
        shutil.rmtree(copy)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_what_the_disk_cannot_read_now_is_not_deleted(three_steps, tmp_path, monkeypatch, number):
    """After a temporary disk error the newest step still exists."""
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    digest, before = checksums._digest, contents(copy)

    def fail(path):
        if path.parent == copy / "checkpoints" / "3" / "params" / "d":
            raise OSError(number, os.strerror(number), str(path))
        return digest(path)

    checkpoints = checkpoints_of(copy, keep=3)
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_digest", fail)
        with pytest.raises(OSError, match=r"nothing was deleted.*checkpoints/3/params/d"):
            restore(checkpoints)
        with pytest.raises(OSError, match=r"cannot be read now"):
            load(copy, "latest")
    assert contents(copy) == before
    assert restore(checkpoints)[0] == 3
    checkpoints.close()


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


def test_other_shapes_are_one_line(three_steps, tmp_path):
    """A config.json that was lost, or is from elsewhere, does not match the checkpoint."""
    other = abstract(state(0)[0])
    kernel = other["layer_0"]["kernel"]
    other["layer_0"]["kernel"] = jax.ShapeDtypeStruct(
        (16, 4, 4), kernel.dtype, sharding=kernel.sharding
    )
    options = {"weights": "latest", "average_last": 1, "every": 1}
    said = r"layer_0/kernel has the shape \(16, 2, 8\), expected \(16, 4, 4\)"
    with pytest.raises(UserError, match=said) as raised:
        weights.load(three_steps, other, {"vocabulary": VOCABULARY}, **options)
    one_line(raised)


@pytest.mark.parametrize(
    ("name", "refused"),
    [("run[1]", True), ("a\\b", True), ("a[b", False), ("a]b", False), ("a*b ü{x}", False)],
)
def test_paths_that_cannot_be_read_back_are_refused(tmp_path, name, refused):
    workdir = tmp_path / name
    if refused:
        with pytest.raises(UserError, match="without backslashes and brackets") as raised:
            checkpoints_of(workdir, keep=1)
        one_line(raised)
        assert not workdir.exists()
        return
    checkpoints = checkpoints_of(workdir, keep=1)
    checkpoints.save(1, *state(1))
    checkpoints.close()
    tiny.assert_same_bits(load(workdir, "latest")[0], state(1)[0])


def test_without_a_whole_checkpoint_nothing_is_deleted(three_steps, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    for step in (2, 3):  # the steps with an optimizer state
        flip_a_bit(next((copy / "checkpoints" / str(step) / "opt_state").rglob("d/*")))
    before = contents(copy)
    checkpoints = checkpoints_of(copy, keep=3)
    with pytest.raises(ValueError, match=r"no checkpoint in .* is undamaged") as raised:
        restore(checkpoints)
    checkpoints.close()
    one_line(raised)
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("weights", "file"),
    [
        ("latest", "checkpoints/3"),
        ("average", "checkpoints/1"),
        ("best", "best/2"),
    ],
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


def test_a_damaged_best_is_replaced(three_steps, tmp_path, caplog):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    checkpoints = checkpoints_of(copy, keep=3)
    assert restore(checkpoints)[0] == 3
    assert f"damaged: {copy / 'best' / '2'}" in caplog.text
    assert checkpoints.save_best(4, state(5)[0], 1.0)
    checkpoints.close()
    assert steps(copy / "best") == [4]
    tiny.assert_same_bits(load(copy, "best")[0], state(5)[0])


@pytest.mark.parametrize("damage", [flip_a_bit, pathlib.Path.unlink])
@pytest.mark.parametrize("name", ["params/_METADATA", "checksums.json"])
def test_verify_names_what_is_damaged(three_steps, tmp_path, capsys, damage, name):
    copy = tmp_path / "copy"
    shutil.copytree(three_steps, copy)
    verify.verify(None, copy)
    whole = json.loads(capsys.readouterr().out)
    assert whole == {name: [] for name in (*(f"checkpoints/{i}" for i in (1, 2, 3)), "best/2")}
    damage(copy / "checkpoints" / "2" / name)
    with pytest.raises(SystemExit) as status:
        verify.verify(None, copy)
    assert status.value.code == 1
    found = json.loads(capsys.readouterr().out)
    [fault] = found.pop("checkpoints/2")
    assert str(copy / "checkpoints" / "2") in fault
    assert name in fault
    assert found == {name: [] for name in whole if name != "checkpoints/2"}
    with pytest.raises(UserError, match="holds no checkpoint"):
        verify.verify(None, tmp_path)


# Full disks


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_full_disk_keeps_what_was_saved_and_says_so(
    opened, tmp_path, when, no_file_over, monkeypatch, caplog
):
    checkpoints = opened()
    assert checkpoints.save(1, *state(1))
    assert checkpoints.save_best(1, state(1)[0], 1.0)
    assert checkpoints.finish()
    if when == "before":
        with monkeypatch.context() as patch:
            patch.setattr(manager.paths, "free_bytes", lambda path: 1000)
            assert not checkpoints.save(2, *state(2))
    else:
        with no_file_over(4096):
            assert checkpoints.save(2, *state(2))  # begun
            assert not checkpoints.finish()
            assert not checkpoints.save_best(2, state(2)[0], 2.0)
        assert "the best of step 2 was not saved" in caplog.text
    assert "step 2 " in caplog.text
    assert str(tmp_path) in caplog.text
    assert "MB left" in caplog.text
    assert checkpoints.newest() == 1
    drafts = shutil.ignore_patterns("*tmp*")  # temporary folders, which are being removed
    copy = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy", ignore=drafts)
    other = checkpoints_of(copy, keep=3)
    step, *found = restore(other)
    assert step == 1
    tiny.assert_same_bits(tuple(found), state(1))
    assert load(copy, "best")[1] == [1]
    assert checkpoints.save(3, *state(3))  # the disk has room again
    assert checkpoints.save_best(3, state(3)[0], 2.0)
    assert checkpoints.finish()
    step, *found = restore(opened())
    assert step == 3
    tiny.assert_same_bits(tuple(found), state(3))
    assert load(tmp_path, "best")[1] == [3]


# Slow disks


def test_a_slow_save_is_waited_for(opened, monkeypatch):
    """The next save waits for it: saves do not pile up, and none is skipped."""
    checkpoints, sealed = opened(keep=4), []
    seal = store.CheckpointStore.complete

    def slow(self, step, about):
        time.sleep(0.2)
        seal(self, step, about)
        sealed.append(step)

    monkeypatch.setattr(store.CheckpointStore, "complete", slow)
    for step in (1, 2, 3, 4):
        assert checkpoints.save(step, *state(step))
        assert sealed == [*range(1, step)]
    assert checkpoints.finish()
    assert sealed == [1, 2, 3, 4]
    assert restore(opened(keep=4))[0] == 4


# Retention


@pytest.mark.slow
def test_the_newest_and_the_best_are_kept_whatever_the_scores(tmp_path):
    """For 200 random sequences of scores, with NaNs among them."""
    choose = np.random.default_rng(0)
    small = lambda t: {"x": jax.numpy.full(3, t, np.float32)}
    for sequence in range(200):
        workdir = tmp_path / str(sequence)
        keep = int(choose.integers(1, 4))
        checkpoints = checkpoints_of(workdir, keep=keep)
        scores = choose.integers(0, 4, choose.integers(1, 4)).astype(float)
        scores[choose.random(len(scores)) < 0.3] = np.nan
        best = None
        for step, score in enumerate(scores, start=1):
            checkpoints.save(step, small(step), {"m": small(step)["x"]})
            better = not np.isnan(score) and (best is None or score > scores[best - 1])
            assert checkpoints.save_best(step, small(step), score) == better
            best = step if better else best
        assert checkpoints.close()
        last = len(scores)
        assert steps(workdir / "checkpoints") == list(range(max(1, last - keep + 1), last + 1))
        assert last in with_opt_state(workdir / "checkpoints")
        assert steps(workdir / "best") == ([best] if best else [])


# Devices


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 2), (2, 1)])
def test_restores_onto_another_number_of_devices(opened, before, after):
    opened().save(1, *state(1, before))
    _, *found = restore(opened(), after)
    tiny.assert_same_bits(tuple(found), state(1))
    expected = layout.make_layout("jit", num_devices=after).replicated
    for leaf in jax.tree.leaves(found):
        assert leaf.sharding == expected
        assert len(leaf.addressable_shards) == after
        for shard in leaf.addressable_shards:
            assert shard.data.shape == leaf.shape


def test_loaded_parameters_go_where_they_are_wanted(opened, tmp_path):
    checkpoints = opened()
    for step in (1, 2):
        checkpoints.save(step, *state(step, 8))
    opened()
    for which in ("latest", "average"):
        for leaf in jax.tree.leaves(load(tmp_path, which)[0]):
            assert isinstance(leaf, jax.Array)
            assert leaf.sharding == layout.make_layout("jit", num_devices=1).replicated
