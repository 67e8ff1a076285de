"""metrics.jsonl and TensorBoard: cut on resuming, completed after a full disk."""

import datetime
import logging
import time

from helpers.runs import assert_tensorboard_is_metrics, scalars

from transformer.monitoring import log
from transformer.monitoring.log import Log, read


def test_the_log_is_cut_where_a_run_resumes(tmp_path):
    """Lines after the step, and a line that was cut off in writing, are removed from both."""
    log = Log(tmp_path, 0)
    for step in (10, 20, 30):
        log.write("train", step, {"loss": 1 / step})
    log.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "st')
    time.sleep(1.1)  # TensorBoard's files are named by the second
    log = Log(tmp_path, 20)
    assert [line["step"] for line in log.lines] == [10, 20]
    log.write("train", 30, {"loss": 7.0})
    log.write("validation", 30, {"bleu": 1.5, "samples": "좋아해\nI like it"})
    log.close()
    lines = read(tmp_path)
    assert lines == log.lines
    assert [line.get("loss") for line in lines] == [0.1, 0.05, 7.0, None]
    assert lines[-1]["samples"] == "좋아해\nI like it"
    assert_tensorboard_is_metrics(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl", "tensorboard"}


def test_each_start_is_kept(tmp_path, no_file_over, caplog):
    for step in (0, 20):
        log = Log(tmp_path, step)
        log.started(step, {"devices": 1, "mesh": (1, 1, 1)})
        log.close()
    lines = read(tmp_path, "starts.jsonl")
    assert [(line["step"], line["devices"], line["mesh"]) for line in lines] == [
        *((0, 1, [1, 1, 1]), (20, 1, [1, 1, 1]))
    ]
    times = [datetime.datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert datetime.datetime.now(datetime.UTC) - times[0] < datetime.timedelta(minutes=1)
    log = Log(tmp_path, 30)
    with no_file_over(len((tmp_path / "starts.jsonl").read_bytes()) + 5):
        log.started(30, {})  # a full disk is no reason not to train
    log.close()
    assert "starts.jsonl" in caplog.text
    assert read(tmp_path, "starts.jsonl") == lines


def test_a_full_disk_delays_the_log_and_ends_nothing(tmp_path, no_file_over, caplog):
    log = Log(tmp_path, 0)
    values = {"text": "x" * 1000, **{f"number_{i}": float(i) for i in range(20)}}
    line = lambda step: {"kind": "train", "step": step, **values}
    log.write("train", 1, values)
    with no_file_over(2000):
        for step in range(2, 60):
            log.write("train", step, values)
            assert read(tmp_path) == [line(1)]  # and no part of another
        errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
        assert len(errors) == 1  # logged once
        assert str(tmp_path / "metrics.jsonl") in errors[0]
    log.write("train", 60, values)
    assert read(tmp_path) == [line(step) for step in range(1, 61)]
    log.write("train", 61, values)
    log.close()
    assert read(tmp_path) == [line(step) for step in range(1, 62)]
    assert [path.name for path in tmp_path.glob("metrics*")] == ["metrics.jsonl"]
    shown = scalars(tmp_path)
    log = Log(tmp_path, 61)
    with no_file_over(1500):
        log.write("train", 62, values)
    log.close()  # there is room again
    assert read(tmp_path) == [line(step) for step in range(1, 63)]
    assert [step for tag, step in shown if tag == "train/number_3" and step > 59] == [60, 61]


def test_a_corrupt_line_is_skipped(tmp_path, caplog):
    """A power failure may leave zeros."""
    good = '{"kind": "train", "step": 1}\n'
    (tmp_path / "metrics.jsonl").write_bytes(good.encode() + bytes(9) + b"\n\xff\n" + good.encode())
    assert [line["step"] for line in log.read(tmp_path)] == [1, 1]
    assert "line 2: not a log line" in caplog.text
