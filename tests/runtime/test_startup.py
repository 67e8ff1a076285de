"""The allocator is set up by starting anew, once; programs are scheduled for little memory."""

import os
import platform
import subprocess
import sys

import pytest

from transformer.runtime import startup


@pytest.fixture
def started(monkeypatch):
    """What `restart_with_allocator` starts anew: a list of (program, arguments)."""
    calls = []
    monkeypatch.setattr(os, "execv", lambda *call: calls.append(call))
    for name in startup.ALLOCATOR:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-O", "launch.py", "--help"])
    monkeypatch.setattr(sys, "argv", ["launch.py", "--help"])
    return calls


def test_the_allocator_is_set_up_by_starting_anew_once(started):
    startup.restart_with_allocator()
    assert started == [(sys.executable, [sys.executable, "-O", "launch.py", "--help"])]
    assert startup.ALLOCATOR.items() <= os.environ.items()
    startup.restart_with_allocator()
    assert len(started) == 1


@pytest.mark.parametrize("name", startup.ALLOCATOR)
def test_an_allocator_that_is_set_up_stays_as_it_is(started, name):
    os.environ[name] = "1"
    startup.restart_with_allocator()
    assert not started
    assert {x: os.environ[x] for x in startup.ALLOCATOR if x in os.environ} == {name: "1"}


@pytest.mark.parametrize("case", ["imported by a notebook", "without glibc"])
def test_nothing_is_started_anew(started, monkeypatch, case):
    if case == "without glibc":
        monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    else:
        monkeypatch.setattr(sys, "orig_argv", ["python", "ipython"])
    startup.restart_with_allocator()
    assert not started


# Sorts eight arrays of 1 MB and sums a row of each: one of them is alive at a time, or all eight.
BRANCHES = """
from transformer.runtime import startup

startup.schedule_for_memory()
import jax
import jax.numpy as jnp

branches = lambda x: sum(jnp.sort(x + i, axis=0)[7].sum() for i in range(8))
program = jax.jit(branches).lower(jnp.ones((500, 500))).compile()
print(program.memory_analysis().temp_size_in_bytes // 1_000_000)
"""


@pytest.mark.parametrize(
    ("flags", "megabytes"),
    [
        ("", range(1, 3)),
        ("--xla_gpu_enable_latency_hiding_scheduler=true", range(1, 3)),
        ("--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED", range(8, 10)),
    ],
)
def test_a_program_takes_little_memory_unless_xla_flags_names_a_scheduler(flags, megabytes):
    done = subprocess.run(
        [sys.executable, "-c", BRANCHES],
        env=os.environ | {"XLA_FLAGS": flags},
        check=True,
        stdout=subprocess.PIPE,
    )
    assert int(done.stdout) in megabytes


def test_a_file_of_flags_stays_as_it_is(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "flags.txt")
    startup.schedule_for_memory()
    assert os.environ["XLA_FLAGS"] == "flags.txt"
