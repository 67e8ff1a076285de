"""The seam: another task, and another architecture, go through launch.py as they are."""

import json
import shutil

import pytest
from helpers.runs import without_times

import launch
from transformer import registry
from transformer.checkpoints import manager
from transformer.errors import UserError
from transformer.modes import train
from transformer.workdir.log import read

KEYS = {"train.num_steps": 60, "train.save_every": 20, "evaluate.every": 10, "train.log_every": 5}


@pytest.fixture
def toy(toy_config):
    """A function that runs launch.py with the toy task, of a workdir and {config key: value}."""

    def run(workdir, **changes):
        values = {**KEYS, **{key.replace("__", "."): x for key, x in changes.items()}}
        arguments = [f"--config.{key}={value}" for key, value in values.items()]
        launch.main([f"--config={toy_config}", f"--workdir={workdir}", *arguments])

    return run


def test_a_toy_task_is_trained_killed_resumed_and_has_its_best(toy, tmp_path, capsys, monkeypatch):
    toy(tmp_path / "whole")
    result = json.loads(capsys.readouterr().out)
    validations = [x for x in read(tmp_path / "whole") if x["kind"] == "validation"]
    errors = {x["step"]: x["error"] for x in validations}
    assert list(errors) == [10, 20, 30, 40, 50, 60]
    assert errors[60] < 0.1 * errors[10]
    best = min(errors, key=errors.get)
    assert (result["step"], result["error"]) == (best, pytest.approx(errors[best]))
    assert [path.name for path in (tmp_path / "whole" / "best").iterdir()] == [str(best)]
    training = [x for x in read(tmp_path / "whole") if x["kind"] == "train"]
    assert {"loss", "items_per_second", "skipped"} <= training[0].keys()

    class Killed(BaseException):
        pass

    def killed(self, step, *trees, save=manager.Checkpoints.save):
        if step == 40:
            raise Killed
        return save(self, step, *trees)

    with monkeypatch.context() as patch:
        patch.setattr(manager.Checkpoints, "save", killed)
        with pytest.raises(Killed):
            toy(tmp_path / "killed")
    toy(tmp_path / "killed")
    rates = {"items_per_second"}

    def untimed(workdir):
        return [{k: v for k, v in x.items() if k not in rates} for x in without_times(workdir)]

    assert untimed(tmp_path / "killed") == untimed(tmp_path / "whole")
    starts = {name: read(tmp_path / name, "starts.jsonl") for name in ("killed", "whole")}
    assert [x["step"] for x in starts["killed"]] == [0, 30]  # saved before its validation
    assert [(x["step"], x["data"]) for x in starts["whole"]] == [
        (0, "64 items; 4 batches an epoch")
    ]


def test_a_resumed_run_may_have_another_rate_but_no_other_optimizer(toy, toy_config, tmp_path):
    """Such as a run that ended after repeated non-finite updates."""
    toy(tmp_path / "run", train__num_steps=20)
    linear = 'linear_schedule", "init_value": 0.01, "end_value": 0.0, "transition_steps": 60'
    toy_config.write_text(
        toy_config.read_text().replace('constant_schedule", "value": 0.02', linear)
    )
    toy(tmp_path / "run", train__num_steps=25)
    rates = {x["step"]: x["learning_rate"] for x in read(tmp_path / "run") if x["kind"] == "train"}
    after = 0.01 * (1 - 24 / 60)
    assert rates == pytest.approx({5: 0.02, 10: 0.02, 15: 0.02, 20: 0.02, 25: after})
    with pytest.raises(UserError, match=r"config.optimizer.clip_norm=0.0, now it is 1.0"):
        toy(tmp_path / "run", train__num_steps=40, optimizer__clip_norm=1.0)


def test_a_run_starts_from_the_best_params_of_another(toy, tmp_path, capsys):
    """Only once: when it is resumed, the other run may be gone."""

    def error(workdir, **changes):
        toy(workdir, **changes)
        return json.loads(capsys.readouterr().out)["error"]

    still = {"optimizer__schedule__value": 0.0, "train__num_steps": 10}
    best = error(tmp_path / "first", train__num_steps=40)
    second = {"train__init_from": tmp_path / "first", **still}
    assert error(tmp_path / "second", **second) == best  # to the bit
    shutil.rmtree(tmp_path / "first")
    assert error(tmp_path / "second", **{**second, "train__num_steps": 20}) == best
    with pytest.raises(UserError, match=r"config.train.init_from: \S*first/best holds no"):
        toy(tmp_path / "third", **second)


@pytest.mark.parametrize(
    ("name", "strategy", "mesh"),
    [
        *((name, "jit", (4, 2, 1)) for name in ("adamw", "sgd", "lion", "adafactor")),
        pytest.param("adamw", "pmap", (8, 1, 1), marks=pytest.mark.slow),  # any state is whole
    ],
    ids=str,
)
def test_optimizers_of_optax_descend(toy, toy_config, tmp_path, name, strategy, mesh):
    """By optax's sign: what they return is added."""
    rate = {"adafactor": 0.1}.get(name, 0.02)
    text = toy_config.read_text().replace('"sgd"', repr(name))
    toy_config.write_text(text.replace('"value": 0.02', f'"value": {rate}'))
    seldom = {"evaluate__every": 30, "train__save_every": 60}
    toy(tmp_path / "run", parallel__strategy=strategy, parallel__mesh=mesh, **seldom)
    errors = [x["error"] for x in read(tmp_path / "run") if x["kind"] == "validation"]
    assert errors[-1] < 0.5 * errors[0]


def test_another_architecture_is_trained_scored_and_translates(
    tiny_config, tmp_path, monkeypatch, answered, capsysbinary
):
    monkeypatch.setitem(registry.MODELS, "mixer", "helpers.mixer:Mixer")
    steps = {"train.num_steps": 60, "train.save_every": 30, "evaluate.every": 30}
    config = tiny_config({**steps, "decode.beam_width": 4, "loss.blocks": 1})
    config.architecture, config.model = "mixer", {"width": 16}
    config.optimizer.schedule.d_model = 16
    train.train(config.copy_and_resolve_references(), tmp_path)
    lines = [x for x in read(tmp_path) if x["kind"] == "validation"]
    assert lines[-1]["loss"] < lines[0]["loss"]
    capsysbinary.readouterr()
    assert answered("translate", tmp_path, "가 나 다\n".encode()).count("\n") == 1
    data_dir = f"--config.data.data_dir={config.data.data_dir}"
    launch.main(["--mode=evaluate", f"--workdir={tmp_path}", data_dir])
    assert json.loads(capsysbinary.readouterr().out)["loss"] > 0
