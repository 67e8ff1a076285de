"""The mode evaluate: a workdir alone, and in an ensemble."""

import json
import shutil

import pytest
from helpers.command_line import trained

import launch
from transformer.errors import UserError
from transformer.modes import evaluate
from transformer.workdir import saved_config


def test_a_value_that_cannot_work_is_said_before_anything_is_read(tmp_path):
    arguments = ["--mode=evaluate", trained(tmp_path, {}), "--config.evaluate.tokenize=14a"]
    with pytest.raises(UserError, match=r"evaluate\.tokenize must be one of .*'13a'"):
        launch.main(arguments)


@pytest.mark.slow
def test_an_ensemble_of_two_steps_is_another_model(tiny_run, tmp_path, capsys):
    """The logarithm of a mean is above the mean of the logarithms: so it is better than half."""
    workdir = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    early = shutil.copytree(tiny_run.workdir, tmp_path / "early")
    shutil.rmtree(early / "checkpoints" / "160")
    results = []
    for folder, ensemble in ((workdir, ""), (early, ""), (workdir, early)):
        config = saved_config.read_config(folder)
        config.evaluate.update(weights="latest", ensemble=str(ensemble))
        evaluate.evaluate(config, folder)
        results.append(json.loads(capsys.readouterr().out))
    assert [result["step"] for result in results] == [160, 120, 160]  # of the workdir itself
    assert results[2]["steps"] == [160, 120]
    one, other, both = (result["nats_per_token"] for result in results)
    assert one != pytest.approx(other, abs=1e-3)
    assert both < (one + other) / 2 - 1e-4
    assert both != pytest.approx(one, abs=1e-4)
