"""metrics.jsonl and TensorBoard: cut on resuming; a full disk ends the run."""

import datetime

import pytest
from helpers.runs import assert_tensorboard_is_metrics, scalars

from transformer.workdir import log
from transformer.workdir.log import Log, read


def test_the_log_is_cut_where_a_run_resumes(tmp_path):
    """Lines after the step, and a line that was cut off in writing, are removed from both."""
    log = Log(tmp_path, 0)
    for step in (10, 20, 21):
        log.write("train", step, {"loss": 1 / step})
    log.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "st')
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


FACTS = {
    **{"parameters": 1, "processes": 1, "devices": 1, "mesh": (1, 1, 1)},
    **{"device": "cpu", "strategy": "jit", "data": "1 pair"},
}


def test_each_start_is_kept(tmp_path):
    for step in (0, 20):
        log = Log(tmp_path, step)
        log.started(step, FACTS)
        log.close()
    lines = read(tmp_path, "starts.jsonl")
    assert [(line["step"], line["devices"], line["mesh"]) for line in lines] == [
        *((0, 1, [1, 1, 1]), (20, 1, [1, 1, 1]))
    ]
    times = [datetime.datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert datetime.datetime.now(datetime.UTC) - times[0] < datetime.timedelta(minutes=1)


def test_a_full_disk_ends_the_run_and_the_resumed_log_is_whole(tmp_path, no_file_over):
    """With an error that names the file, whichever file it is."""
    values = {"text": "x" * 1000, **{f"number_{i}": float(i) for i in range(20)}}
    expected = [{"kind": "train", "step": step, **values} for step in range(1, 5)]
    run_log = Log(tmp_path, 0)
    run_log.write("train", 1, values)
    for size, write, name in (
        (2000, lambda: run_log.write("train", 2, values), "metrics.jsonl"),
        (10, lambda: run_log.started(1, FACTS), "starts.jsonl"),
        (10, lambda: Log(tmp_path, 1), "metrics.jsonl"),
    ):
        with no_file_over(size), pytest.raises(OSError, match="File too large") as raised:
            write()
        assert raised.value.filename == str(tmp_path / name)
    assert read(tmp_path) == expected[:1]
    run_log = Log(tmp_path, 1)
    for step in (2, 3, 4):
        run_log.write("train", step, values)
    run_log.close()
    assert read(tmp_path) == expected
    assert [path.name for path in tmp_path.glob("metrics*")] == ["metrics.jsonl"]
    steps = [step for tag, step in scalars(tmp_path) if tag == "train/number_3"]
    assert steps == [1, 2, 3, 4]


def test_corrupt_lines_are_skipped_and_counted(tmp_path, caplog):
    """A power failure may leave zeros."""
    good = '{"kind": "train", "step": 1}\n'
    (tmp_path / "metrics.jsonl").write_bytes(
        good.encode() + bytes(9) + b"\n\xff\n[1]\n{}\n" + good.encode()
    )
    assert [line["step"] for line in log.read(tmp_path)] == [1, 1]
    assert "metrics.jsonl: 4 lines skipped: not log lines" in caplog.text
