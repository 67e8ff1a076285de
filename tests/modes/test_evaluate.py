"""The mode evaluate: it says what validation says, also of an ensemble."""

import json
import shutil

import pytest
from helpers.runs import VALIDATION_KEYS

from transformer.modes import evaluate
from transformer.workdir import saved_config
from transformer.workdir.log import read


@pytest.fixture
def evaluated(capsys):
    """A function of a workdir and {key of config.evaluate: value}: what the mode prints."""

    def run(workdir, **changes):
        config = saved_config.read_config(workdir)
        config.evaluate.update(changes)
        evaluate.evaluate(config, workdir)
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.slow
def test_an_ensemble_of_two_steps_is_another_model(tiny_run, evaluated, tmp_path):
    """The logarithm of a mean is above the mean of the logarithms: so it is better than half."""
    workdir = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    early = shutil.copytree(tiny_run.workdir, tmp_path / "early")
    shutil.rmtree(early / "checkpoints" / "160")
    results = [
        evaluated(folder, weights="latest", ensemble=str(ensemble))
        for folder, ensemble in ((workdir, ""), (early, ""), (workdir, early))
    ]
    assert [result["step"] for result in results] == [160, 120, 160]  # of the workdir itself
    assert results[2]["steps"] == [160, 120]
    one, other, both = (result["nats_per_token"] for result in results)
    assert one != pytest.approx(other, abs=1e-3)
    assert both < (one + other) / 2 - 1e-4
    assert both != pytest.approx(one, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["latest", "best"])
def test_validation_says_what_evaluate_says(tiny_run, evaluated, tmp_path, weights):
    copied = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    said = evaluated(copied, split="validation", weights=weights)
    [line] = [x for x in read(copied) if (x["kind"], x["step"]) == ("validation", said["step"])]
    assert said["sentences"] == 60
    assert said["bleu"] > 0
    for name in VALIDATION_KEYS - {"kind", "samples"}:
        assert said[name] == line[name]
