"""Where compiled programs are kept: a folder for each kind of CPU, unless one is set already."""

import os
import pathlib

import jax
import pytest

from transformer.errors import UserError
from transformer.runtime.compilation_cache import set_compilation_cache

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
    set_compilation_cache(str(tmp_path / "other"))
    assert jax.config.jax_compilation_cache_dir == folder
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0


@pytest.mark.usefixtures("no_cache")
def test_each_kind_of_cpu_has_its_own_folder(tmp_path, monkeypatch):
    """Machines may share a home, and JAX would run a program that was compiled for another CPU."""
    folders = []
    for machine in ("x86_64", "aarch64", "x86_64"):
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        set_compilation_cache(str(tmp_path / "programs"))
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
        set_compilation_cache(folder)
        assert jax.config.jax_compilation_cache_dir is None
    assert "compiled programs are not cached: " in caplog.text


def test_a_bucket_is_refused():
    with pytest.raises(UserError, match="compilation_cache must be a local folder"):
        set_compilation_cache("gs://bucket/programs")
