"""The mode evaluate: it says what validation says, also of an ensemble."""

import json
import shutil

import pytest
from helpers.runs import VALIDATION_KEYS

import launch
from transformer.modes import evaluate
from transformer.workdir import saved_config
from transformer.workdir.log import read


@pytest.fixture
def evaluated(tiny_run, tmp_path, capsys):
    """A function of a workdir and more arguments: its scores on a few sentences of the test set."""
    from transformer.tasks import splits

    sides = splits.pairs(tiny_run.config, "test").read()
    for language, lines in zip(("ko", "en"), sides, strict=True):
        (tmp_path / f"test.{language}").write_text("".join(f"{line}\n" for line in lines))
    arguments = [
        *("--config.data.corpus=parallel_text", f"--config.data.directory={tmp_path}"),
        f"--config.data.data_dir={tiny_run.config.data.data_dir}",
    ]

    def evaluate(workdir, *more):
        launch.main(["--mode=evaluate", f"--workdir={workdir}", *arguments, *more])
        return json.loads(capsys.readouterr().out)

    return evaluate


@pytest.mark.slow
def test_an_ensemble_of_two_steps_is_another_model(tiny_run, evaluated, tmp_path):
    """The logarithm of a mean is above the mean of the logarithms: so it is better than half."""
    workdir = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    early = shutil.copytree(tiny_run.workdir, tmp_path / "early")
    shutil.rmtree(early / "checkpoints" / "160")
    latest = "--config.evaluate.weights=latest"
    results = [
        evaluated(folder, latest, f"--config.evaluate.ensemble={ensemble}")
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
def test_validation_says_what_evaluate_says(tiny_run, tmp_path, capsys, weights):
    copied = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    config = saved_config.read_config(copied)
    config.evaluate.split, config.evaluate.weights = "validation", weights
    evaluate.evaluate(config, copied)
    said = json.loads(capsys.readouterr().out)
    [line] = [x for x in read(copied) if (x["kind"], x["step"]) == ("validation", said["step"])]
    assert said["sentences"] == 60
    assert said["bleu"] > 0
    for name in VALIDATION_KEYS - {"kind", "samples"}:
        assert said[name] == line[name]
