"""How many runs at a time, and which device each has."""

import subprocess
import types

import pytest

from transformer.errors import UserError
from transformer.tools.sweep import children


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
