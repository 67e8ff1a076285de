"""Which steps are kept, and which one is restored, whatever was interrupted, damaged or full."""

import errno
import os
import pathlib
import shutil
import time

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import (
    assert_restores,
    checkpoints_of,
    contents,
    flip_a_bit,
    load,
    one_line,
    restore,
    state,
    steps,
    truncate,
    with_opt_state,
    zero_a_block,
)

from transformer.checkpoints import manager, store
from transformer.runtime import checksums, paths


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_keeps_the_last_parameters_and_two_optimizer_states(saved, tmp_path, keep):
    checkpoints = saved(1, 2, 5, 6, 9, keep=keep)
    assert steps(tmp_path / "checkpoints") == [1, 2, 5, 6, 9][-keep:]
    assert with_opt_state(tmp_path / "checkpoints") == [6, 9][-keep:]
    assert_restores(checkpoints, 9)
    assert load(tmp_path, "average", average_last=keep)[1] == [1, 2, 5, 6, 9][-keep:]


def test_a_step_is_saved_once(saved, monkeypatch):
    """A run resumed and stopped at once does not rewrite its only complete checkpoint."""
    checkpoints = saved(1)
    monkeypatch.setattr(store.CheckpointStore, "save", None)
    assert checkpoints.save(1, *state(1))


def test_stopped_runs_steps_do_not_count(saved, tmp_path):
    """Steps saved on a signal (7, 11, 13) lie between the checkpoints to keep and average."""
    checkpoints = saved(5, 7, 10, 11, 13, every=5)
    assert restore(checkpoints)[0] == 13
    assert load(tmp_path, "latest", every=5)[1] == [13]
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 13]
    saved(15, every=5)
    assert load(tmp_path, "average", every=5)[1] == [5, 10, 15]  # as without the signals
    saved(20, every=5)
    assert load(tmp_path, "average", every=5)[1] == [10, 15, 20]
    assert steps(tmp_path / "checkpoints") == [10, 15, 20]


@pytest.mark.parametrize(("best_is", "sign"), [("highest", 1.0), ("lowest", -1.0)])
def test_best_is_kept_apart_until_a_better_score(saved, opened, tmp_path, best_is, sign):
    options = {"keep": 1, "best_is": best_is}
    checkpoints = saved(1, **options)
    scores = {1: np.nan, 2: 3.0, 3: 5.0, 4: 5.0, 5: 4.9, 6: 5.1, 7: 0.0}
    kept = [checkpoints.save_best(t, state(t)[0], sign * score) for t, score in scores.items()]
    assert kept == [False, True, True, False, False, True, False]
    checkpoints = saved(6, 7, 8, **options)
    assert steps(tmp_path / "best") == [6]
    assert 6 not in steps(tmp_path / "checkpoints")
    assert not checkpoints.save_best(9, state(9)[0], sign * 5.1)  # the best is read from disk
    parameters, loaded_steps = load(tmp_path, "best")
    assert loaded_steps == [6]
    tiny.assert_same_bits(parameters, state(6)[0])


def test_of_two_bests_the_better_one_counts(saved, opened, tmp_path, monkeypatch):
    """A run was killed before it deleted the old best; the better one may be the earlier step."""
    checkpoints = saved(5)
    with monkeypatch.context() as patch:
        patch.setattr(store.CheckpointStore, "delete", lambda self, step: None)
        assert checkpoints.save_best(9, state(9)[0], 1.0)
        assert checkpoints.save_best(6, state(6)[0], 2.0)
    checkpoints = opened()
    assert steps(tmp_path / "best") == [6, 9]
    parameters, loaded_steps = load(tmp_path, "best")
    assert loaded_steps == [6]
    tiny.assert_same_bits(parameters, state(6)[0])
    assert not checkpoints.save_best(10, state(10)[0], 1.5)
    assert checkpoints.save_best(3, state(3)[0], 2.5)
    assert steps(tmp_path / "best") == [3]


@pytest.mark.parametrize("files", [0, 3])
def test_a_best_that_was_being_deleted_is_not_used(copy, files):
    """However many files are left: the newer best is complete, and training deletes the rest."""
    half = shutil.copytree(copy / "best" / "2", copy / "best" / "1")
    (half / "checksums.json").unlink()
    for file in [path for path in half.rglob("*") if path.is_file()][:files]:
        file.unlink()
    assert load(copy, "best")[1] == [2]
    checkpoints = checkpoints_of(copy, keep=3)
    assert restore(checkpoints)[0] == 3
    checkpoints.close()
    assert steps(copy / "best") == [2]


def test_no_best_without_a_checkpoint_to_go_on_from(opened, tmp_path, caplog):
    """A run killed at that moment could not be resumed, and would be refused forever."""
    checkpoints = opened()
    assert not checkpoints.save_best(1, state(1)[0], 1.0)
    assert "no checkpoint could be saved yet" in caplog.text
    checkpoints.save(1, *state(1))
    assert checkpoints.save_best(1, state(1)[0], 1.0)


# Interrupted saves


@pytest.mark.parametrize("lost", ["checksums.json", "opt_state", "."])
def test_a_save_that_was_cut_off_is_dropped_and_can_be_saved_again(saved, opened, tmp_path, lost):
    saved(1, 2, 3)
    newest = tmp_path / "checkpoints" / "3"
    (newest / "checksums.json").unlink()  # it is written last
    if lost != "checksums.json":
        shutil.rmtree(newest / lost)
    checkpoints = opened()
    assert_restores(checkpoints, 2)
    assert steps(tmp_path / "checkpoints") == [1, 2]
    checkpoints.save(3, *state(33))
    assert_restores(opened(), 3, 33)


@pytest.mark.parametrize("keep", [1, 3])
def test_failed_saves_push_nothing_out(saved, opened, tmp_path, no_file_over, keep, caplog):
    """However many saves fail, a step to resume from stays: no step is deleted to make room."""
    checkpoints = saved(1, 2, keep=keep)
    whole = steps(tmp_path / "checkpoints")
    with no_file_over(4096):
        for step in range(3, 6):
            assert checkpoints.save(step, *state(step))  # begun
            assert not checkpoints.finish()
            assert f"step {step} was not saved" in caplog.text
            assert steps(tmp_path / "checkpoints") == whole
    assert_restores(opened(keep=keep), 2)
    assert restore(saved(7, keep=keep))[0] == 7


def test_best_of_steps_that_come_again_stays_until_there_is_a_new_one(saved, opened, tmp_path):
    """Killed after a validation, before the checkpoint: the resumed run may score differently."""
    saved(2).save_best(3, state(3)[0], 5.0)
    checkpoints = opened()
    assert restore(checkpoints)[0] == 2
    assert load(tmp_path, "best")[1] == [3]
    assert not checkpoints.save_best(3, state(33)[0], np.nan)
    assert steps(tmp_path / "best") == [3]
    assert checkpoints.save_best(3, state(33)[0], 4.0)
    assert not checkpoints.save_best(4, state(4)[0], 3.9)
    tiny.assert_same_bits(load(tmp_path, "best")[0], state(33)[0])


@pytest.mark.parametrize("wrong", ["checksums_of", "write_file"])
def test_saves_that_fail_after_orbax_leave_nothing(saved, opened, tmp_path, monkeypatch, wrong):
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
    assert restore(opened()) is None
    assert restore(saved(4))[0] == 4


def test_a_disk_that_is_full_once_a_step_is_complete_ends_nothing(
    opened, tmp_path, monkeypatch, caplog
):
    """Dropping the optimizer state of an older step writes a file, which fails here."""
    checkpoints = opened(keep=5)

    def full(self, step, item):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.CheckpointStore, "drop", full)
        for step in (1, 2, 3):
            assert checkpoints.save(step, *state(step))
        assert checkpoints.finish()
    assert "cannot delete an old checkpoint" in caplog.text
    assert with_opt_state(tmp_path / "checkpoints") == [1, 2, 3]
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


# Damage


DAMAGES = [truncate, pathlib.Path.unlink, flip_a_bit, zero_a_block]


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
        assert_restores(checkpoints, 2)
        checkpoints.close()
        named = copy / file.relative_to(three_steps)
        if damage is not pathlib.Path.unlink or file.name != "checksums.json":  # incomplete
            assert f"damaged: {named}" in caplog.text
        assert steps(copy / "checkpoints") == [1, 2]
        shutil.rmtree(copy)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_what_the_disk_cannot_read_now_is_not_deleted(copy, monkeypatch, number):
    """After a temporary disk error the newest step still exists."""
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


def test_without_a_whole_checkpoint_nothing_is_deleted(copy):
    for step in (2, 3):  # the steps with an optimizer state
        flip_a_bit(next((copy / "checkpoints" / str(step) / "opt_state").rglob("d/*")))
    before = contents(copy)
    checkpoints = checkpoints_of(copy, keep=3)
    with pytest.raises(ValueError, match="has an undamaged optimizer state") as raised:
        restore(checkpoints)
    checkpoints.close()
    one_line(raised)
    assert contents(copy) == before


def test_a_damaged_best_is_replaced(copy, caplog):
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    checkpoints = checkpoints_of(copy, keep=3)
    assert restore(checkpoints)[0] == 3
    assert f"damaged: {copy / 'best' / '2'}" in caplog.text
    assert checkpoints.save_best(4, state(5)[0], 1.0)
    checkpoints.close()
    assert steps(copy / "best") == [4]
    tiny.assert_same_bits(load(copy, "best")[0], state(5)[0])


# Full disks


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_full_disk_keeps_what_was_saved_and_says_so(
    saved, opened, tmp_path, when, no_file_over, monkeypatch, caplog
):
    checkpoints = saved(1)
    assert checkpoints.save_best(1, state(1)[0], 1.0)
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
    assert_restores(checkpoints_of(copy, keep=3), 1)
    assert load(copy, "best")[1] == [1]
    assert checkpoints.save(3, *state(3))  # the disk has room again
    assert checkpoints.save_best(3, state(3)[0], 2.0)
    assert checkpoints.finish()
    assert_restores(opened(), 3)
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
    """For 30 random sequences of scores, with NaNs among them."""
    choose = np.random.default_rng(0)
    small = lambda t: {"x": jax.numpy.full(3, t, np.float32)}
    for sequence in range(30):
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
