"""Workdirs are loaded as one ensemble, in the types and with the weights that this run asks for."""

import jax
import numpy as np
import pytest
from helpers import reversal, tiny

from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.tasks import saved_model
from transformer.workdir import config_files, saved_config
from transformer.workdir.saved_config import write_config


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two workdirs of random params: {folder: its params}, at the steps 7 and 8."""
    inputs, written = reversal.batch(reversal.sentences(1, seed=0))["inputs"], {}
    for step in (7, 8):
        folder = tmp_path_factory.mktemp("runs") / "run"
        written[folder] = tiny.parameters(reversal.model(), inputs, seed=step)
        reversal.write_workdir(folder, written[folder], step)
    return written


@pytest.fixture
def config(folders):
    """The first workdir's config, with the second in the ensemble; spaces do not count."""
    first, second = folders
    config = saved_config.read_config(first)
    config.evaluate.ensemble = f"{second} , "
    return config


def test_an_ensemble_has_the_params_of_each_workdir(folders, config):
    first, second = folders
    both = saved_model.load(config, first)
    assert isinstance(both.model, Ensemble)
    assert (both.steps, both.step) == ([7, 8], 7)  # its own workdir's
    expected = {"members_0": folders[first], "members_1": folders[second]}
    jax.tree.map(np.testing.assert_array_equal, both.params, expected)
    config.evaluate.ensemble = ""
    alone = saved_model.load(config, second)
    assert alone.model == both.model.members[1]
    assert alone.steps == [8]
    jax.tree.map(np.testing.assert_array_equal, alone.params, folders[second])


def test_members_compute_in_this_runs_dtype(folders, config):
    config.model.dtype = "bfloat16"
    model = saved_model.load(config, next(iter(folders))).model
    assert [member.dtype for member in model.members] == ["bfloat16", "bfloat16"]


def test_a_member_of_another_task_is_refused(config, toy_config, tmp_path):
    write_config(config_files.load_config(str(toy_config)), tmp_path)
    config.evaluate.ensemble = str(tmp_path)
    with pytest.raises(UserError, match="on the task 'toy', this run on 'translation'"):
        saved_model.ensemble(config)
