"""A recurrent model takes the same steps on eight devices as on one."""

import pytest
from conformance import tiny_tasks
from helpers.layouts import assert_devices_take_the_steps_of_one

from configs import multi30k_rnn
from transformer.modes import prepare
from transformer.workdir import saved_config


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "mesh"), [("pmap", (8, 1, 1)), ("jit", (2, 4, 1))])
def test_eight_devices_take_the_steps_of_one(tmp_path, strategy, mesh):
    """Under pmap, and under jit with the state sharded over four of them."""
    config = tiny_tasks.config("translation", tmp_path)
    config.architecture, config.data.pack = "recurrent", False
    config.model = multi30k_rnn.get_config("additive").model
    config.model.update(d_model=16, dropout_rate=0.0, cell="lstm")
    task = prepare.prepare(config, tmp_path / "run")
    config = saved_config.read_config(tmp_path / "run")
    assert_devices_take_the_steps_of_one(config, task, strategy, mesh)
