"""The allocator is set up by starting anew, once; programs take little memory, and are kept."""

import os
import pathlib
import platform
import subprocess
import sys

import jax
import pytest

from transformer.errors import UserError
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


def test_garbage_is_collected_again_after_the_imports():
    startup.gc.disable()
    startup.freeze_imports()
    assert startup.gc.isenabled()
    startup.gc.unfreeze()


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


def test_a_file_of_flags_stays_as_it_is_and_a_gpus_scheduler_is_another(monkeypatch):
    for flags, added in (
        ("flags.txt", False),
        ("--xla_gpu_enable_latency_hiding_scheduler=1", True),
    ):
        monkeypatch.setenv("XLA_FLAGS", flags)
        startup.schedule_for_memory()
        assert os.environ["XLA_FLAGS"].endswith(flags)
        assert ("--xla_cpu_scheduler_type=" in os.environ["XLA_FLAGS"]) == added


NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture
def no_cache():
    """JAX without a cache, as it is in a run of a user."""
    before = {name: getattr(jax.config, name) for name in NAMES}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_environments_folder_goes_before_the_configs(tmp_path):
    """So that no test writes into a home."""
    folder = jax.config.jax_compilation_cache_dir
    assert folder == os.environ["JAX_COMPILATION_CACHE_DIR"]
    startup.set_compilation_cache(str(tmp_path / "other"))
    assert jax.config.jax_compilation_cache_dir == folder
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0


@pytest.mark.usefixtures("no_cache")
def test_each_kind_of_cpu_has_its_own_folder(tmp_path, monkeypatch):
    """Machines may share a home, and JAX would run a program that was compiled for another CPU."""
    folders = []
    for machine in ("x86_64", "aarch64", "x86_64"):
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        startup.set_compilation_cache(str(tmp_path / "programs"))
        folders.append(pathlib.Path(jax.config.jax_compilation_cache_dir))
    assert {folder.parent for folder in folders} == {tmp_path / "programs"}
    assert folders[0] == folders[2] != folders[1]
    assert all(folder.is_dir() for folder in folders)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.1


@pytest.mark.usefixtures("no_cache")
def test_without_a_folder_that_can_be_written_nothing_is_cached(tmp_path, caplog):
    (tmp_path / "file").touch()
    for folder in ("", str(tmp_path / "file" / "programs")):
        assert ("not cached" in caplog.text) is False
        startup.set_compilation_cache(folder)
        assert jax.config.jax_compilation_cache_dir is None
    assert "compiled programs are not cached: " in caplog.text


def test_a_bucket_is_refused():
    with pytest.raises(UserError, match="compilation_cache must be a local folder"):
        startup.set_compilation_cache("gs://bucket/programs")
