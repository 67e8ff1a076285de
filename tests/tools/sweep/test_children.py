"""Runs in processes of their own: how many at a time, on which device, and how they are stopped."""

import json
import subprocess
import time
import types

import pytest
from tools.sweep import sweeps

from transformer.errors import UserError
from transformer.tools.sweep import children


@pytest.fixture
def run_all(monkeypatch):
    """A function of runs and environments: (names in the order in which they ended, their statuses,
    the steps that were shown)."""
    sweeps.fake(monkeypatch)

    def run(runs, environments=({},), should_stop=lambda: False):
        statuses, steps = {}, []
        children.run_all(
            runs,
            environments,
            should_stop=should_stop,
            advance=steps.append,
            ended=lambda run, status: statuses.update({run.name: status}),
        )
        return statuses, sum(steps)

    return run


def printed(run):
    return json.loads(run.log.read_text().splitlines()[-1])


def test_each_process_has_its_environment(run_all, tmp_path, monkeypatch):
    """And none thinks that it is one of several that Slurm has started."""
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[1-2]")
    runs = sweeps.runs(tmp_path, "[rows.base]\nseeds = [0, 1, 2]\n[rows.last]\n")
    run_all(runs, [{"GPU": "0"}, {"GPU": "1"}])
    seen = [printed(run)["env"] for run in runs]
    assert {x["GPU"] for x in seen} == {"0", "1"}
    assert {x["SLURM_STEP_NODELIST"] for x in seen} == {None}


def test_a_signal_reaches_those_that_run_and_starts_no_other(run_all, tmp_path):
    runs = sweeps.runs(tmp_path, "[rows.slow]\nseeds = [0, 1, 2]\n[rows.base]\n")
    waits = [run.workdir / "waits" for run in runs[:2]]
    statuses, steps = run_all(runs, [{}, {}], lambda: all(file.exists() for file in waits))
    assert statuses == {"slow-seed0": 143, "slow-seed1": 143}
    assert set(statuses.values()) <= {*children.STOPPED}
    assert steps == 2 * 10
    assert not runs[2].workdir.exists()
    statuses, steps = run_all(runs[:2])  # goes on
    assert statuses == {"slow-seed0": 0, "slow-seed1": 0}
    assert steps == 2 * 10  # of each, the second half


def test_an_error_leaves_no_process(run_all, tmp_path):
    runs = sweeps.runs(tmp_path, "[rows.slow]\n")

    def fail():
        if (runs[0].workdir / "waits").exists():
            raise OSError(28, "No space left on device")
        return False

    with pytest.raises(OSError, match="No space"):
        run_all(runs, should_stop=fail)
    started = time.perf_counter()
    while "Terminated" not in runs[0].log.read_text():  # the fake's own word
        assert time.perf_counter() - started < 20
        time.sleep(0.02)


@pytest.fixture
def devices(monkeypatch):
    """A function that makes JAX have these devices: 'gpu 2'."""

    def have(printed, status=0):
        counted = types.SimpleNamespace(stdout=printed, stderr="A\nno device\n", returncode=status)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: counted)
        for name in ("CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
            monkeypatch.delenv(name, raising=False)

    return have


def gpus(processes):
    return [slot["CUDA_VISIBLE_DEVICES"] for slot in children.environments(processes)]


def test_a_process_has_a_gpu(devices, monkeypatch):
    devices("WARNING\ngpu 3\n")
    assert gpus(0) == ["0", "1", "2"]
    assert gpus(2) == ["0", "1"]
    assert children.environments(1) == [{"CUDA_VISIBLE_DEVICES": "0"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,MIG-7,1")
    assert gpus(0) == ["5", "MIG-7", "1"]


def test_processes_share_a_gpu_and_its_memory(devices, monkeypatch):
    devices("gpu 2\n")
    assert gpus(5) == ["0", "1", "0", "1", "0"]
    assert {x["XLA_CLIENT_MEM_FRACTION"] for x in children.environments(5)} == {"0.30"}
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.1")  # the user's own
    assert children.environments(3)[0] == {"CUDA_VISIBLE_DEVICES": "0"}


def test_elsewhere_a_process_has_all_devices(devices):
    devices("cpu 8\n")
    assert children.environments(0) == [{}]
    assert children.environments(3) == [{}, {}, {}]
    devices("tpu 4\n")
    assert children.environments(0) == children.environments(1) == [{}]
    with pytest.raises(UserError, match=r"must be 0 or 1 on a TPU.* found 2"):
        children.environments(2)


def test_devices_that_cannot_be_counted(devices):
    devices("", status=1)
    with pytest.raises(UserError, match="JAX finds no devices: no device"):
        children.environments(0)
