"""Weights & Biases and MLflow get a run's numbers, under one id, and never end a run."""

import json

import pytest

from transformer.errors import UserError
from transformer.workdir import trackers
from transformer.workdir.log import Log, read
from transformer.workdir.trackers import Tracker

CONFIG = {"task": "toy", "model": {"d_model": 8}}
LINES = [
    ("train", 10, {"loss": 2.5, "tokens_per_second": 1000, "note": "좋아해"}),
    ("validation", 10, {"bleu": 31.5, "samples": "나는\nI"}),
]
NUMBERS = {"train/loss": 2.5, "train/tokens_per_second": 1000.0, "validation/bleu": 31.5}


def run_twice(name, workdir):
    """Logs the lines in a run that is stopped after the first, and resumed."""
    for line in LINES:
        tracked = trackers.start(name, workdir, CONFIG)
        log = Log(workdir, 10, tracked)
        log.write(*line)
        log.close()
    return json.loads((workdir / trackers.IDS).read_bytes())[name]


def test_mlflow_has_the_numbers_of_a_resumed_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    workdir = tmp_path / "the_run"
    run = mlflow.get_run(run_twice("mlflow", workdir))
    assert run.data.metrics == NUMBERS
    assert (run.info.run_name, run.info.status) == ("the_run", "FINISHED")
    assert mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/config.json") == CONFIG
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


def test_a_tracker_that_fails_is_dropped_and_ends_nothing(tmp_path, caplog):
    steps = []

    def write(step, numbers):
        steps.append(step)
        if step == 20:
            raise ConnectionError("the service is down")

    def close():
        raise TimeoutError("still down")

    log = Log(
        tmp_path, 0, [Tracker("run-7", write, close), Tracker("run-8", lambda *_: None, close)]
    )
    for step in (10, 20, 30):
        log.write("train", step, {"loss": 1.0})
    log.close()
    assert steps == [10, 20]
    assert [line["step"] for line in read(tmp_path)] == [10, 20, 30]
    assert "run-7 is no longer tracked from step 20: the service is down" in caplog.text
    assert "run-8: still down" in caplog.text


def test_only_the_first_process_tracks_and_none_by_default(tmp_path, monkeypatch):
    assert trackers.start("", tmp_path, CONFIG) == []
    monkeypatch.setattr(trackers.processes, "is_first", lambda: False)
    assert trackers.start("mlflow", tmp_path, CONFIG) == []
    assert not list(tmp_path.iterdir())


def test_what_cannot_track_is_one_line(tmp_path, monkeypatch):
    trackers.check("")
    with pytest.raises(UserError, match="one of 'wandb', 'mlflow', found 'comet'"):
        trackers.check("comet")
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install wandb"):
        trackers.check("wandb,mlflow")

    def no_login(*_):
        raise RuntimeError("no API key")

    opening = {"wandb": no_login, "mlflow": lambda *_: opened}
    monkeypatch.setattr(trackers, "load", lambda code: opening[code.partition(":")[2]])
    closed = []
    opened = Tracker("run-7", lambda *_: None, lambda: closed.append("run-7"))
    with pytest.raises(UserError, match="wandb did not start: no API key"):
        trackers.start("mlflow,wandb", tmp_path, CONFIG)
    assert closed == ["run-7"]
    # Started again, it goes on in the run that was opened.
    assert json.loads((tmp_path / trackers.IDS).read_text()) == {"mlflow": "run-7"}
