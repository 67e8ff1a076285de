"""Workdirs with checkpoints."""

import shutil

import pytest
from helpers import shared
from helpers.checkpoints import checkpoints_of, save_three_steps, state


@pytest.fixture
def opened(tmp_path):
    """A function that opens the workdir's checkpoints as a new process would; closed at the end."""
    managers = []

    def open_again(keep=3, **options):
        if managers:
            managers.pop().close()
        managers.append(checkpoints_of(tmp_path, keep, **options))
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
    return shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
