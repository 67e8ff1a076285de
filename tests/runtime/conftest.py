"""A fake bucket. Orbax reaches buckets by its own storage code, which cannot be faked: its folders
are on a disk here."""

import pytest
from etils import epath
from fsspec.registry import _registry
from helpers.buckets import RUN, Objects

from transformer.checkpoints import manager, weights
from transformer.runtime import paths


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """The path of a run in an empty bucket; its checkpoints are in tmp_path."""
    for name in Objects.protocol:
        monkeypatch.setitem(_registry, name, Objects)
    epath.backend.fsspec_backend._get_filesystem.cache_clear()
    Objects.store.clear()
    Objects.clear_instance_cache()
    opened, resumable = manager.CheckpointStore, manager.resumable

    def elsewhere(folder):
        if not paths.in_bucket(folder):
            return folder
        (folder / "elsewhere").write_bytes(b"")
        return tmp_path / "objects" / str(folder).removeprefix("gs://")

    for module in (manager, weights):
        monkeypatch.setattr(
            module, "CheckpointStore", lambda folder, *a, **b: opened(elsewhere(folder), *a, **b)
        )
    monkeypatch.setattr(
        manager, "resumable", lambda workdir: resumable(elsewhere(workdir / "best").parent)
    )
    yield paths.path(RUN)
    epath.backend.fsspec_backend._get_filesystem.cache_clear()
