"""A fake bucket, in memory, that epath takes for Google's."""

from fsspec.implementations.memory import MemoryFileSystem

RUN = "gs://bucket/run"


class Objects(MemoryFileSystem):
    """A file system that, like a bucket, cannot append or rename and needs no folders."""

    protocol = ("gs", "gcs")
    store = {}  # noqa: RUF012 (as its parent has it)
    pseudo_dirs = [""]  # noqa: RUF012 (as its parent has it)

    def _open(self, path, mode="rb", **options):
        assert mode in ("rb", "wb"), f"{path} is opened as {mode}"
        return super()._open(path, mode, **options)

    def mv(self, *paths, **options):
        raise AssertionError(f"{paths} are renamed")

    mkdir = makedirs = None


def objects():
    """Returns the bucket's objects, {path in the run: content}."""
    return {name.removeprefix(f"{RUN}/"): file.getvalue() for name, file in Objects.store.items()}
