"""The mode sweep: from the command line to processes, a table, a line of JSON and a page."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.runs import ONE_DEVICE, ROOT
from tools.sweep import sweeps

import launch
from transformer.errors import UserError

ROWS = "[rows.base]\nseeds = [0, 1]\n[rows.rotary]\nmodel.positions = 'rotary'\n"


@pytest.fixture
def sweep(tmp_path, monkeypatch, capsys):
    """A function of a file's rows and more arguments: the exit status, and the printed JSON."""
    monkeypatch.chdir(tmp_path)
    sweeps.fake(monkeypatch)

    def run(rows, *arguments):
        Path("some.toml").write_text(sweeps.BASE + rows)
        status = 0
        try:
            launch.main(["--mode=sweep", "some.toml", *arguments])
        except SystemExit as error:
            status = error.code
        printed = capsys.readouterr().out
        return status, json.loads(printed) if printed else None

    return run


def test_a_sweep_ends_with_a_table_and_a_page(sweep, tmp_path, caplog):
    caplog.set_level("INFO")
    status, values = sweep(ROWS)
    folder = tmp_path / "runs" / "some"
    assert status == 0
    assert values == json.loads((folder / "sweep.json").read_text())
    base, rotary = values["rows"]
    assert [run["scores"]["bleu"] for run in base["runs"]] == [20.0, 21.0]
    assert (rotary["difference"], rotary["overrides"]) == (9.5, {"model.positions": "rotary"})
    assert (rotary["p"]["value"], rotary["p"]["of"], rotary["p"]["seed"]) == (0.04, "bleu", 0)
    assert "20.50 ± 0.71" in (folder / "sweep.html").read_text()
    assert "base     1,234,567     10   5 s   20.00   21.00     20.50 ± 0.71" in caplog.text
    assert "rotary-seed0: BLEU 30.00; 3 of 3 runs finished" in caplog.text


def test_a_failed_row_is_named_at_the_end_and_tried_again(sweep, tmp_path, caplog):
    status, values = sweep("[rows.bad]\n" + ROWS)
    assert status == 1
    assert [row["mean"] for row in values["rows"]] == [None, 20.5, 30.0]  # it stops no other
    assert [row["p"] for row in values["rows"]] == [None] * 3  # the first row has no run
    last = caplog.records[-1].getMessage()
    assert last.startswith("bad-seed0 has no result: exit status 2: runs/some/bad-seed0: nothing")
    assert last.endswith("nothing but trouble (runs/some/bad-seed0.log)")
    logs = [tmp_path / "runs" / "some" / f"{name}-seed0.log" for name in ("bad", "base")]
    bad, base = (log.read_text() for log in logs)
    assert sweep("[rows.bad]\n" + ROWS)[0] == 1
    assert [log.read_text() for log in logs] == [2 * bad, base]  # what is finished is not run again


def test_what_cannot_work_runs_nothing(sweep, tmp_path):
    with pytest.raises(UserError, match="must be at least 0, found -1"):
        sweep(ROWS, "--config.sweep.processes=-1")
    with pytest.raises(UserError, match=r"row base: --config\.data\.x=1: there is no key"):
        sweep(ROWS, "--config.data.x=1")
    assert not (tmp_path / "runs").exists()
    sweep(ROWS)
    with pytest.raises(UserError, match=r"base-seed0 was trained with .*d_model=256, now it is 64"):
        sweep(ROWS, "--config.model.d_model=64")


@pytest.mark.slow
def test_a_real_sweep_is_interrupted_and_goes_on(tmp_path, tiny_values):
    """With nothing faked: two runs of a tiny model, in processes that train, stop and compare."""
    values = tiny_values | {"data.batch_tokens": 256, "model.d_model": 16, "model.d_ff": 16}
    values |= {"train.num_steps": 400, "evaluate.every": 0, "evaluate.samples": 0}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
    text = 'config = "configs/parallel_text.py"\n[overrides]\n' + text
    (tmp_path / "some.toml").write_text(
        f"{text}\n[rows.base]\n[rows.rotary]\nmodel.positions='rotary'\n"
    )
    command = [sys.executable, "launch.py", "--mode=sweep", str(tmp_path / "some.toml")]
    # Interrupted with one process, resumed with two.
    command.append(f"--workdir={tmp_path / 'sweep'}")
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = subprocess.Popen(command, cwd=ROOT, env=ONE_DEVICE, **piped)
    metrics = tmp_path / "sweep" / "base-seed0" / "metrics.jsonl"
    while not (metrics.exists() and '"step": 10,' in metrics.read_text()):
        assert first.poll() is None, first.stderr.read().decode()
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    assert first.communicate()[0] == b""
    assert first.returncode == 143
    command.append("--config.sweep.processes=2")
    done = subprocess.run(command, cwd=ROOT, env=ONE_DEVICE, text=True, check=False, **piped)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {run["steps"] for row in rows for run in row["runs"]} == {400}
    assert 0 < rows[1]["p"]["value"] <= 1
    starts = metrics.with_name("starts.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] > 0 for line in starts] == [False, True]
