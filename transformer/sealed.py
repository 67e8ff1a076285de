"""Arrays <-> a folder of checkpoints by step: Orbax, and checksums of what it was given."""

import logging
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp

from transformer import checksums, processes, storage

Tree = Any


class DamagedError(ValueError):
    """A checkpoint is not what was written."""


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
        """The damaged files of a step, which are warned of. Of one that is not sealed (it was cut
        off between its last file and its checksums, or has lost these), only the note is read."""
        faults = checksums.damaged(self.place(step))
        if faults is None:
            logging.warning("%s has no %s", self.place(step), checksums.NAME)
            try:
                self.about(step)
            except DamagedError as error:
                faults = [str(error)]
        for fault in faults or ():
            logging.warning("damaged: %s; step %d is not used", fault, step)
        return faults or []

    def about(self, step: int) -> dict:
        """The note of a step."""
        return self._read(step, about=ocp.args.JsonRestore())["about"]

    def shapes(self, step: int) -> Tree:
        """What has the shapes and types of a step's arrays."""
        return self._manager.item_metadata(step)["arrays"].tree

    def restore(self, step: int, like: Tree) -> Tree:
        """A step's arrays, as a tree of jax.ShapeDtypeStruct says that they are expected and where
        they go; DamagedError if they are not those that were saved."""
        arrays = self._read(step, arrays=ocp.args.StandardRestore(like))["arrays"]
        expected, found = self.about(step)["checksums"], checksums.of_arrays(arrays)
        if others := [name for name in expected if found.get(name) != expected[name]]:
            raise DamagedError(f"{self.place(step)} (other numbers in {', '.join(others)})")
        return arrays

    def _read(self, step: int, **items: Any) -> ocp.args.Composite:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**items))
        except Exception as error:  # damage has many types
            if (self.place(step) / checksums.NAME).exists():  # its files are whole: another fault
                raise
            reason = str(error).partition("\n")[0]
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
