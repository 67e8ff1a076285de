"""Workdirs with checkpoints."""

import shutil

import pytest
from helpers import shared
from helpers.checkpoints import VOCABULARY, save_three_steps, state

from transformer.checkpoints import manager


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


@pytest.fixture
def saved(opened):
    """A function that saves steps, and opens the checkpoints again as the next process would."""

    def save(*steps, **options):
        checkpoints = opened(**options)
        for step in steps:
            checkpoints.save(step, *state(step))
        return opened(**options)

    return save


@pytest.fixture(scope="session")
def three_steps():
    """A workdir with steps 1, 2 and 3, of which 2 is the best: to read, or to copy."""
    return shared.made_once("three_steps", save_three_steps)


@pytest.fixture
def copy(three_steps, tmp_path):
    """A copy of `three_steps`, to damage."""
    return shutil.copytree(three_steps, tmp_path / "copy")
