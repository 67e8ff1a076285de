"""Which steps are kept, and which one is restored, whatever was interrupted, damaged or full."""

import errno
import itertools
import os
import pathlib
import re
import shutil
import time

import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import (
    assert_restores,
    checkpoints_of,
    contents,
    flip_a_bit,
    load,
    restore,
    state,
    steps,
    truncate,
    zero_a_block,
)

from transformer import errors
from transformer.checkpoints import manager, store
from transformer.errors import UserError
from transformer.runtime import checksums, paths


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_keeps_two_steps_to_resume_from_and_the_params_to_average(saved, opened, tmp_path, keep):
    checkpoints, averaged = saved(1, 2, 5, 6, 9, keep=keep), [1, 2, 5, 6, 9][-keep:]
    assert steps(tmp_path / "checkpoints") == [6, 9]
    assert steps(tmp_path / "params") == averaged
    assert not list((tmp_path / "params").rglob("opt_state"))
    assert_restores(checkpoints, 9)
    assert load(tmp_path, "average", average_last=keep)[1] == averaged
    # Restoring deletes none of them, whatever the keys of the run that resumes.
    assert_restores(opened(keep=1, every=7), 9)
    assert steps(tmp_path / "params") == averaged


def test_stopped_runs_steps_do_not_count(saved, tmp_path):
    """Steps saved on a signal (7, 11, 13) lie between the checkpoints to keep and average."""
    assert restore(saved(5, 7, 10, 11, 13, every=5))[0] == 13
    assert load(tmp_path, "latest")[1] == [13]
    assert load(tmp_path, "average")[1] == [5, 10, 13]
    saved(15, every=5)
    assert load(tmp_path, "average")[1] == [5, 10, 15]  # as without the signals
    saved(20, every=5)
    assert load(tmp_path, "average")[1] == [10, 15, 20]
    assert steps(tmp_path / "params") == [10, 15, 20]


def killed(*_):
    raise InterruptedError


@pytest.mark.parametrize(
    ("owner", "name"), [(store.CheckpointStore, "copy_params"), (store, "delete")]
)
def test_a_kill_after_a_step_is_complete_loses_none_of_params(
    saved, opened, tmp_path, monkeypatch, owner, name
):
    """The resumed run, which starts at that step, makes up for the copy and for the deletions."""
    saved(5, 10, keep=2, every=5)
    checkpoints = opened(keep=2, every=5)
    with monkeypatch.context() as patch:
        checkpoints._latest.save(15, dict(zip(store.ITEMS, state(15), strict=True)))
        patch.setattr(owner, name, killed)
        with pytest.raises(InterruptedError):
            checkpoints._complete(15)
    half = tmp_path / "params" / "15" / "params"
    if name == "copy_params":  # killed within the copy
        half.mkdir(parents=True)
        (half / "manifest.ocdbt").write_bytes(b"half")
    assert_restores(opened(keep=2, every=5), 15)
    assert steps(tmp_path / "checkpoints") == [10, 15]
    assert steps(tmp_path / "params") == [10, 15]
    parameters, loaded_steps = load(tmp_path, "average", average_last=1)
    assert loaded_steps == [15]
    tiny.assert_same_bits(parameters, state(15)[0])


def test_a_damaged_copy_is_made_again_and_a_flipped_bit_is_not_certified(saved, opened, tmp_path):
    saved(1, 2)
    flip_a_bit(next((tmp_path / "params" / "2" / "params" / "d").iterdir()))
    assert_restores(opened(), 2)
    assert not checksums.corrupt_files(tmp_path / "params" / "2")
    shutil.rmtree(tmp_path / "params" / "2")
    flip_a_bit(next((tmp_path / "checkpoints" / "2" / "params" / "d").iterdir()))
    opened()._averaged.copy_params(tmp_path / "checkpoints" / "2", 2)
    assert checksums.corrupt_files(tmp_path / "params" / "2")


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
        patch.setattr(store.CheckpointStore, "keep", lambda self, kept: None)
        assert checkpoints.save_best(9, state(9)[0], 1.0)
        assert checkpoints.save_best(6, state(6)[0], 2.0)
    checkpoints = opened()
    assert steps(tmp_path / "best") == [6, 9]
    parameters, loaded_steps = load(tmp_path, "best")
    assert loaded_steps == [6]
    tiny.assert_same_bits(parameters, state(6)[0])
    # Its score was not logged, so that it is scored again.
    assert checkpoints.save_best(6, state(6)[0], 2.0)
    assert steps(tmp_path / "best") == [6]
    assert not checkpoints.save_best(10, state(10)[0], 1.5)
    assert checkpoints.save_best(3, state(3)[0], 2.5)
    assert steps(tmp_path / "best") == [3]


@pytest.mark.parametrize("files", [0, 3])
def test_a_best_that_was_being_deleted_is_not_used(copy, opened, files, monkeypatch):
    """However many files are left: the newer best is complete, and training deletes the rest."""
    half = shutil.copytree(copy / "best" / "2", copy / "best" / "1")
    with monkeypatch.context() as patch:
        patch.setattr(paths, "remove", lambda place: None)  # killed before it
        store.delete(half)
    for file in [path for path in half.rglob("*") if path.is_file()][:files]:
        file.unlink()
    assert load(copy, "best")[1] == [2]
    assert restore(opened())[0] == 3
    assert steps(copy / "best") == [2]


@pytest.mark.parametrize("lost", ["checksums.json", "opt_state", "."])
def test_a_save_that_was_cut_off_is_dropped_and_can_be_saved_again(saved, opened, tmp_path, lost):
    saved(1, 2, 3)
    newest = tmp_path / "checkpoints" / "3"
    (newest / "checksums.json").unlink()  # it is written last
    if lost != "checksums.json":
        shutil.rmtree(newest / lost)
    checkpoints = opened()
    assert_restores(checkpoints, 2)
    assert steps(tmp_path / "checkpoints") == [2]
    assert steps(tmp_path / "params") == [1, 2]
    checkpoints.save(3, *state(33))
    assert_restores(opened(), 3, 33)


def test_best_of_steps_that_come_again_stays_until_there_is_a_new_one(saved, opened, tmp_path):
    """The newer checkpoints were damaged: the resumed run may score differently."""
    saved(2).save_best(3, state(3)[0], 5.0)
    checkpoints = opened()
    assert restore(checkpoints)[0] == 2
    assert load(tmp_path, "best")[1] == [3]
    assert not checkpoints.save_best(3, state(33)[0], np.nan)
    assert steps(tmp_path / "best") == [3]
    assert checkpoints.save_best(3, state(33)[0], 4.0)
    assert not checkpoints.save_best(4, state(4)[0], 3.9)
    tiny.assert_same_bits(load(tmp_path, "best")[0], state(33)[0])


DAMAGES = [truncate, pathlib.Path.unlink, zero_a_block]


@pytest.mark.slow
def test_no_damaged_file_changes_weights_in_silence(three_steps, tmp_path, caplog):
    """For every file of the newest step: that step is restored bit for bit, or the one before."""
    newest, copy = three_steps / "checkpoints" / "3", tmp_path / "copy"
    files = [path.relative_to(three_steps) for path in newest.rglob("*") if path.is_file()]
    assert len(files) > 20
    each = [(file, flip_a_bit) for file in files]
    for file, damage in [*each, *zip(files, itertools.cycle(DAMAGES), strict=False)]:
        shutil.copytree(three_steps, copy)
        damage(copy / file)
        caplog.clear()
        checkpoints = checkpoints_of(copy, keep=3)
        assert_restores(checkpoints, 2)
        checkpoints.close()
        if damage is not pathlib.Path.unlink or file.name != "checksums.json":  # incomplete
            assert f"damaged: {copy / file}" in caplog.text
        assert steps(copy / "checkpoints") == [2]
        assert steps(copy / "params") == [1, 2]
        shutil.rmtree(copy)


def test_what_the_disk_cannot_read_ends_the_run_and_is_not_deleted(copy, opened, monkeypatch):
    """It may be intact, and read when the run is started again."""
    digest, before = checksums._digest, contents(copy)

    def fail(path):
        if path.parent == copy / "checkpoints" / "3" / "params" / "d":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return digest(path)

    checkpoints = opened()
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_digest", fail)
        with pytest.raises(OSError, match=r"checkpoints/3/params/d"):
            restore(checkpoints)
    assert contents(copy) == before
    assert restore(checkpoints)[0] == 3


def test_without_a_whole_checkpoint_nothing_is_deleted(copy, opened):
    for step in (2, 3):
        flip_a_bit(next((copy / "checkpoints" / str(step) / "opt_state").rglob("d/*")))
    before = contents(copy)
    with pytest.raises(UserError, match=r"\A.*none to resume from.*\Z"):
        restore(opened())
    assert contents(copy) == before


def test_a_damaged_best_is_replaced(copy, opened, caplog):
    flip_a_bit(next((copy / "best" / "2").rglob("d/*")))
    checkpoints = opened()
    assert restore(checkpoints)[0] == 3
    assert f"damaged: {copy / 'best' / '2'}" in caplog.text
    assert checkpoints.save_best(4, state(5)[0], 1.0)
    assert steps(copy / "best") == [4]
    tiny.assert_same_bits(load(copy, "best")[0], state(5)[0])


@pytest.mark.parametrize("moment", ["save", "complete", "copy", "best"])
def test_a_full_disk_ends_the_run_with_one_line_and_what_was_saved_stays(
    tmp_path, moment, no_file_over, monkeypatch
):
    """In Orbax's threads, at the checksums (a quota), in the copy of params, in best/."""
    checkpoints = checkpoints_of(tmp_path, keep=1)
    checkpoints.save(1, *state(1))
    checkpoints.finish()
    assert checkpoints.save_best(1, state(1)[0], 1.0)

    def full(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    def save_the_rest():
        checkpoints.finish()
        checkpoints.save_best(2, state(2)[0], 2.0)

    said = r"File too large|Disk quota exceeded"
    with monkeypatch.context() as patch:
        if moment == "complete":
            patch.setattr(checksums, "checksums_of", full)
        if moment == "copy":
            patch.setattr(shutil, "copyfileobj", full)
        with no_file_over(4096 if moment in ("save", "best") else 10**9):
            if moment != "best":
                checkpoints.save(2, *state(2))  # begun
            with pytest.raises((OSError, ValueError), match=said) as raised:
                save_the_rest()
            assert re.match(rf"({said}): free some space", errors.one_line(raised.value))
            for again in (lambda: checkpoints.save(3, *state(3)), checkpoints.close):
                if moment != "best":
                    with pytest.raises((OSError, ValueError), match=said):
                        again()
    again = checkpoints_of(tmp_path, keep=1)  # with room again
    assert_restores(again, 2 if moment == "copy" else 1)
    assert load(tmp_path, "best")[1] == [1]
    again.save(3, *state(3))
    assert again.save_best(3, state(3)[0], 2.0)
    again.close()
    assert_restores(checkpoints_of(tmp_path, keep=1), 3)
    assert steps(tmp_path / "params") == [3]
    assert load(tmp_path, "best")[1] == [3]
    assert not list(tmp_path.rglob("*tmp*"))


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
        checkpoints.save(step, *state(step))
        assert sealed == [*range(1, step)]
    checkpoints.finish()
    assert sealed == [1, 2, 3, 4]
    assert restore(opened(keep=4))[0] == 4


# What a workdir may be started with


@pytest.mark.parametrize("step", [1, 2])
def test_a_first_save_that_was_cut_off_is_replaced_by_a_complete_one(saved, opened, tmp_path, step):
    (tmp_path / "checkpoints" / "7.orbax-checkpoint-tmp").mkdir(parents=True)
    (tmp_path / "best").mkdir()
    assert not manager.resumable(tmp_path)
    saved(1)
    (tmp_path / "checkpoints" / "1" / "checksums.json").unlink()
    shutil.rmtree(tmp_path / "params")
    assert not manager.resumable(tmp_path)
    checkpoints = opened()
    assert restore(checkpoints) is None
    assert (tmp_path / "checkpoints" / "1" / "params").is_dir()
    checkpoints.save(step, *state(11))
    assert_restores(opened(), step, 11)
    assert steps(tmp_path / "checkpoints") == [step]


def strip_checksums(workdir):
    for path in workdir.rglob("checksums.json"):
        path.unlink()


@pytest.mark.parametrize(
    "thin",
    [
        strip_checksums,
        lambda workdir: shutil.rmtree(workdir / "checkpoints"),
        lambda workdir: [shutil.rmtree(workdir / name) for name in ("checkpoints", "best")],
        lambda workdir: (shutil.rmtree(workdir / "checkpoints"), strip_checksums(workdir)),
    ],
    ids=["no checksums", "no checkpoints", "params alone", "incomplete"],
)
def test_what_was_trained_and_cannot_be_resumed_is_refused(copy, opened, thin):
    """Such as a copy made to translate with: nothing of it is deleted."""
    thin(copy)
    before = contents(copy)
    with pytest.raises(UserError, match=r"\A.*resumed; nothing was changed; give.*\Z"):
        manager.resumable(copy)
    with pytest.raises(UserError, match="nothing was changed"):
        restore(opened(keep=1))
    assert contents(copy) == before
