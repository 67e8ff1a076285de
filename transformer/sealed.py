"""Arrays <-> a folder of checkpoints by step: Orbax, and checksums of what it was given."""

import contextlib
import logging
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer import checksums, processes, storage

Tree = Any


class DamagedError(ValueError):
    """A checkpoint is not what was written; its one argument says where, and how."""

    def __str__(self) -> str:
        return f"damaged: {self.args[0]}"


class Sealed:
    """Checkpoints in FOLDER/STEP, each with its `arrays` and a note `about` them.

    The note has a checksum of each array, which what is restored is held against. `seal` puts
    checksums of the files beside them: these can be looked at without reading arrays, and say which
    file it is that is damaged (checksums.py).
    """

    def __init__(self, folder: Path, *, keep: int | None = None, read_only: bool = False):
        """`keep`: how many of the newest stay; None: all."""
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            create=not read_only,
            read_only=read_only,
            cleanup_tmp_directories=not read_only,
            # Several folders have the same steps: processes wait for each other by this name, too.
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                barrier_sync_key_prefix=folder.name
            ),
        )
        # epath's absolute() makes a local path of gs://.
        self.folder = folder if storage.in_bucket(folder) else folder.absolute()
        handlers = {"arrays": ocp.StandardCheckpointHandler(), "about": ocp.JsonCheckpointHandler()}
        self._manager = ocp.CheckpointManager(self.folder, options=options, item_handlers=handlers)

    def steps(self) -> list[int]:
        """The steps that are there, in order."""
        return sorted(self._manager.all_steps())

    def save(
        self, step: int, arrays: Tree, sums: dict, about: dict, *, force: bool = False
    ) -> None:
        """Begins to save; the arrays may be donated after that. `seal` has to follow.

        `sums` are the arrays' checksums. A step that is earlier than the newest is saved with
        `force` only.
        """
        about = {**about, "checksums": sums}
        arguments = {"arrays": ocp.args.StandardSave(arrays), "about": ocp.args.JsonSave(about)}
        self._manager.save(step, args=ocp.args.Composite(**arguments), force=force)

    def seal(self, step: int) -> None:
        """Waits until a step is written, and writes its checksums."""
        self._manager.wait_until_finished()
        place = self.place(step)
        if processes.is_first():
            storage.write_file(place / checksums.NAME, checksums.seal(place))

    def faults(self, step: int) -> list[str]:
        """The damaged files of a step.

        One that is not sealed was cut off between its last file and its checksums, or has lost
        these: its note is read.
        """
        place = self.place(step)
        faults = checksums.damaged(place)
        if faults is None:
            logging.warning("%s has no %s", place, checksums.NAME)
            try:
                self.about(step)
            except DamagedError as error:
                faults = list(error.args)
        return faults or []

    def about(self, step: int) -> dict:
        """The note of a step."""
        with self._reading(step):
            arguments = ocp.args.Composite(about=ocp.args.JsonRestore())
            return self._manager.restore(step, args=arguments)["about"]

    def shapes(self, step: int) -> Tree:
        """What has the shapes and types of a step's arrays."""
        with self._reading(step):
            metadata = self._manager.item_metadata(step)["arrays"]
        if metadata is None:
            raise DamagedError(f"{self.place(step)} (its arrays are not named)")
        return metadata.tree

    def restore(self, step: int, like: Tree) -> Tree:
        """A step's arrays, as a tree of jax.ShapeDtypeStruct says that they are expected and where
        they go; DamagedError, in all processes, if they are not those that were saved."""
        with self._reading(step):
            arguments = ocp.args.Composite(arrays=ocp.args.StandardRestore(like))
            arrays = self._manager.restore(step, args=arguments)["arrays"]
        expected, found = self.about(step)["checksums"], checksums.of_arrays(arrays)
        others = [name for name in expected if found.get(name) != expected[name]]
        if others := next(filter(None, processes.everyones(others)), None):
            raise DamagedError(f"{self.place(step)} (other numbers in {', '.join(others)})")
        return arrays

    @contextlib.contextmanager
    def _reading(self, step: int) -> Iterator[None]:
        """DamagedError if a step that is not sealed cannot be read. Several processes, which could
        not agree on that, end."""
        try:
            yield
        except Exception as error:
            # What Orbax says of files that are cut, missing or no JSON; and not of full memory,
            # say, nor where the files are whole.
            damage = type(error) is Exception or isinstance(error, ValueError | FileNotFoundError)
            is_sealed = (self.place(step) / checksums.NAME).exists()
            if not damage or is_sealed or jax.process_count() > 1:
                raise
            reason = textwrap.shorten(str(error), 120, placeholder=" ...")
            raise DamagedError(f"{self.place(step)} ({reason})") from error

    def delete(self, step: int) -> None:
        """Removes a step."""
        self._manager.delete(step)

    def close(self) -> None:
        """Waits for what is being written."""
        self._manager.close()

    def place(self, step: int) -> Path:
        """Where a step is."""
        return storage.path(str(self.folder)) / str(step)
