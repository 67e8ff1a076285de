"""A run resumes, starts from scratch, or is refused and changes nothing."""

import shutil

import pytest
from helpers.checkpoints import (
    assert_restores,
    checkpoints_of,
    contents,
    one_line,
    restore,
    state,
)

from transformer.checkpoints import resuming
from transformer.errors import UserError
from transformer.runtime import checksums


def test_nothing_settles_a_workdir_but_a_step(tmp_path):
    assert not resuming.resumable(tmp_path)
    (tmp_path / "checkpoints" / "7.orbax-checkpoint-tmp").mkdir(parents=True)
    (tmp_path / "best").mkdir()
    assert not resuming.resumable(tmp_path)


def test_a_first_save_that_was_cut_off_is_set_aside(saved, opened, tmp_path, caplog):
    saved(1)
    (tmp_path / "checkpoints" / "1" / "checksums.json").unlink()
    assert not resuming.resumable(tmp_path)
    checkpoints = opened()
    assert restore(checkpoints) is None
    assert "kept as incomplete-1" in caplog.text
    assert (tmp_path / "checkpoints" / "incomplete-1" / "params").is_dir()
    checkpoints.save(1, *state(11))  # the new run reaches the same step
    assert_restores(opened(), 1, 11)


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
def test_what_was_trained_and_cannot_be_resumed_is_refused(copy, thin):
    """Such as a copy made to translate with: nothing of it is deleted."""
    thin(copy)
    before = contents(copy)
    with pytest.raises(UserError, match=r"resumed; nothing was changed; give") as raised:
        resuming.resumable(copy)
    one_line(raised)
    checkpoints = checkpoints_of(copy, keep=1)
    with pytest.raises(UserError, match="nothing was changed"):
        restore(checkpoints)
    checkpoints.close()
    assert contents(copy) == before
