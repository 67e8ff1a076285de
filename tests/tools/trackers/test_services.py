"""Weights & Biases and MLflow get a run's numbers, under one id, and never end a run."""

import json

import pytest
from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.modes import train
from transformer.tools.trackers import services
from transformer.workdir.log import Log, read

CONFIG = {"task": "toy", "model": {"d_model": 8}}
LINES = [
    ("train", 10, {"loss": 2.5, "tokens_per_second": 1000, "note": "좋아해"}),
    ("validation", 10, {"bleu": 31.5, "samples": "나는\nI"}),
]
NUMBERS = {"train/loss": 2.5, "train/tokens_per_second": 1000.0, "validation/bleu": 31.5}


def run_twice(name, workdir):
    """Logs the lines in a run that is stopped after the first, and resumed."""
    for line in LINES:
        with train.trackers(config(name), workdir) as listeners:
            log = Log(workdir, 10, listeners)
            log.write(*line)
            log.close()
    return json.loads((workdir / services.IDS).read_bytes())[name]


def config(names):
    return ConfigDict({**CONFIG, "train": {"trackers": names}})


def test_mlflow_has_the_numbers_of_a_resumed_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    workdir = tmp_path / "the_run"
    run = mlflow.get_run(run_twice("mlflow", workdir))
    assert run.data.metrics == NUMBERS
    assert (run.info.run_name, run.info.status) == ("the_run", "FINISHED")
    saved_config = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/config.json")
    assert saved_config == config("mlflow").to_dict()
    [point] = mlflow.MlflowClient().get_metric_history(run.info.run_id, "validation/bleu")
    assert (point.step, point.value) == (10, 31.5)


def test_wandb_has_the_numbers_of_a_resumed_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    workdir = tmp_path / "the_run"
    workdir.mkdir()
    run_id = run_twice("wandb", workdir)
    wandb.teardown()  # its service writes what is left
    files = sorted(workdir.glob("wandb/offline-run-*/*.wandb"))  # what `wandb sync` uploads
    assert [file.name for file in files] == [f"run-{run_id}.wandb"] * 2  # one for each start
    for file, (kind, step, values) in zip(files, LINES, strict=True):
        content = file.read_bytes()
        for name, value in (("step", step), *((f"{kind}/{k}", v) for k, v in values.items())):
            is_number = isinstance(value, int | float)
            assert (name.encode() in content) == is_number
            assert not is_number or str(value).encode() in content


def service(name, workdir, calls, *, fails=()):
    """A service that notes its calls in `calls`, and fails at those in `fails`."""

    def call(what):
        calls.append(what)
        if what in fails:
            raise ConnectionError("the service is down")

    def start(run_id_before):
        call(("start", run_id_before))
        return "run-7", lambda step, numbers: call(step), lambda: call("close")

    return services.tracked(name, start, workdir)


def test_a_service_that_fails_gets_nothing_more_and_ends_nothing(tmp_path, caplog):
    calls, others = [], []
    with (
        service("wandb", tmp_path, calls, fails=[20]) as first,
        service("mlflow", tmp_path, others, fails=["close"]) as second,
    ):
        log = Log(tmp_path, 0, [first, second])
        for step in (10, 20, 30):
            log.write("train", step, {"loss": 1.0})
        log.close()
    assert calls == [("start", None), 10, 20]
    assert others == [("start", None), 10, 20, 30, "close"]
    assert [line["step"] for line in read(tmp_path)] == [10, 20, 30]
    for name in ("wandb", "mlflow"):
        assert f"logging to {name} stopped: the service is down" in caplog.text


def test_only_the_first_process_tracks_and_none_by_default(tmp_path, monkeypatch):
    with train.trackers(config(""), tmp_path) as listeners:
        assert listeners == []
    monkeypatch.setattr(train.processes, "is_first", lambda: False)
    with train.trackers(config("mlflow"), tmp_path) as listeners:
        assert listeners == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("names", "match"),
    [("wandb,comet", "one of 'wandb', 'mlflow', found 'comet'"), ("wandb", "pip install wandb")],
)
def test_what_cannot_track_is_one_line(names, match, monkeypatch, tmp_path, tiny_config):
    spec = "comet" in names or None  # None: the package is not installed
    monkeypatch.setattr(train.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(UserError, match=match):
        train.train(tiny_config({"train.trackers": names}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_service_that_does_not_start_is_one_line_and_others_go_on(tmp_path):
    calls = []
    no_login = service("wandb", tmp_path, calls, fails=[("start", None)])
    refused = pytest.raises(UserError, match="wandb did not start: the service is down")
    with refused, service("mlflow", tmp_path, calls), no_login:
        pass
    assert calls == [("start", None), ("start", None), "close"]
    # Started again, it goes on in the run that was opened.
    with service("mlflow", tmp_path, calls):
        pass
    assert calls[3:] == [("start", "run-7"), "close"]
