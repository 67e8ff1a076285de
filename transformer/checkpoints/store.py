"""Arrays <-> a folder of checkpoints by step: Orbax, and checksums of the files it wrote.

Orbax renames a step's folder into place once all of its arrays are written. We then sync its files
to the disk and write `checksums.json` beside them, last: a step without that file is incomplete,
and is never read. A flipped bit that Orbax would restore in silence is a checksum mismatch here.

Where nothing else is said, all processes of a run have to call a method together.
"""

import errno
import re
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.storage import checksums, paths

Tree = Any


class DamagedError(UserError):
    """A checkpoint is not what was written; its one argument says where, and how."""

    def __str__(self) -> str:
        return f"damaged: {self.args[0]}"


class CheckpointStore:
    """Checkpoints in FOLDER/STEP: items, which are trees of arrays, and a note `about` them."""

    def __init__(self, folder: Path, items: tuple[str, ...], *, read_only: bool = False):
        check_path(folder)
        options = ocp.CheckpointManagerOptions(
            create=not read_only,
            read_only=read_only,
            # Two folders have the same steps: processes wait for each other by this name, too.
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                barrier_sync_key_prefix=folder.name
            ),
        )
        # epath's absolute() makes a local path of gs://.
        self.folder = folder if paths.in_bucket(folder) else folder.absolute()
        if not read_only and processes.is_first():
            # What a killed save left. Not by Orbax's own option: it takes it for an error of the
            # next save if a save that failed is still ending.
            for draft in self.folder.glob(f"*{ocp.utils.TMP_DIR_SUFFIX}*"):
                paths.remove(draft)
        handlers = {name: ocp.StandardCheckpointHandler() for name in items}
        self._manager = ocp.CheckpointManager(self.folder, options=options, item_handlers=handlers)

    def place(self, step: int) -> Path:
        """Returns the folder of a step."""
        return paths.path(str(self.folder)) / str(step)

    def steps(self) -> list[int]:
        """Lists the complete steps that are there now, in order."""
        # Every process goes by what the first one sees, whatever a shared disk shows it.
        return processes.all_gather(steps(self.folder))[0]

    def all_steps(self) -> list[int]:
        """Lists the steps that are there now, in order, with the incomplete ones."""
        return processes.all_gather(all_steps(self.folder))[0]

    def save(self, step: int, items: dict[str, Tree]) -> None:
        """Begins to save; the arrays may be donated after that. `complete` has to follow.

        One of the same step that is there already is replaced.
        """
        if step in self.all_steps():
            self.delete(step)
        if step in self._manager.all_steps():  # it does not know of what was deleted
            self._manager.reload()
        saves = {name: ocp.args.StandardSave(tree) for name, tree in items.items()}
        # force: also a step that is earlier than the newest one.
        self._manager.save(step, args=ocp.args.Composite(**saves), force=True)

    def complete(self, step: int, about: dict) -> None:
        """Waits until a step is on the disk, and writes its checksums and the note `about` it.

        It may run in a thread: processes do not wait for each other here, but in Orbax.
        """
        self._manager.wait_until_finished()
        if processes.is_first():
            place = self.place(step)
            paths.sync(place)
            paths.write_file(place / checksums.NAME, checksums.checksums_of(place, about))

    def faults(self, step: int, *, without: str = "") -> list[str]:
        """Names a complete step's damaged files, but for those of the item `without`.

        OSError where the disk cannot read one: perhaps only now, so that is not taken for damage.
        """
        wanted = lambda name: not (without and name.startswith(f"{without}/"))
        damaged, unreadable = checksums.compare(self.place(step), wanted=wanted) or ([], [])
        if unreadable:
            raise OSError(errno.EIO, "cannot be read now; nothing was deleted", unreadable[0])
        return damaged

    def about(self, step: int) -> dict:
        """Returns the note of a complete step."""
        return processes.all_gather(checksums.read(self.place(step)))[0]["about"]

    def has(self, step: int, item: str) -> bool:
        """Returns whether a complete step was saved with an item, and still has it."""
        return processes.all_gather(has(self.place(step), item))[0]

    def restore(self, step: int, item: str, like: Tree) -> Tree:
        """Returns an item of a step as a tree of jax.ShapeDtypeStruct says: shapes, and where the
        arrays go. UserError if it has other shapes."""
        self._check_shapes(step, item, like)
        restores = {item: ocp.args.StandardRestore(like)}
        return self._manager.restore(step, args=ocp.args.Composite(**restores))[item]

    def _check_shapes(self, step: int, item: str, like: Tree) -> None:
        """Orbax would say it in a traceback, or cut and fill arrays."""
        saved = _shapes(self._manager.item_metadata(step)[item].tree)
        expected = _shapes(like)
        for name in sorted(saved.keys() | expected.keys()):
            if saved.get(name) != expected.get(name):
                raise UserError(
                    f"{self.place(step)} does not fit this config: {item} {name} has the shape "
                    f"{saved.get(name, '(none)')}, expected {expected.get(name, '(none)')}"
                )

    def delete(self, step: int) -> None:
        """Removes a step. It is incomplete from the first moment on, whenever this is cut off."""
        try:
            if processes.is_first():
                (self.place(step) / checksums.NAME).unlink(missing_ok=True)
                paths.remove(self.place(step))
        finally:
            processes.all_gather(None)  # nobody goes on while it is still there

    def drop(self, step: int, item: str) -> None:
        """Removes an item of a complete step."""
        if processes.is_first():
            place = self.place(step)
            # First the checksums without it: wherever this is cut off, the rest stays complete.
            content = checksums.without(place, f"{item}/")
            paths.write_file(place / checksums.NAME, content)
            paths.remove(place / item)

    def close(self) -> None:
        """Waits for what is being written."""
        self._manager.close()


def all_steps(folder: Path) -> list[int]:
    """Lists the steps in a folder, in order."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal())


def steps_below(folder: Path) -> list[int]:
    """Lists the steps in a folder, and in the folders in it that are none."""
    inside = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    others = [path for path in inside if not path.name.isdecimal()]
    return sorted({*all_steps(folder), *(step for path in others for step in all_steps(path))})


def steps(folder: Path) -> list[int]:
    """Lists the complete steps in a folder, in order."""
    complete = lambda step: (folder / str(step) / checksums.NAME).exists()
    return list(filter(complete, all_steps(folder)))


def has(place: Path, item: str) -> bool:
    """Returns whether the complete step in this place was saved with an item, and still has it."""
    values = checksums.read(place) or {"files": {}}
    return any(name.startswith(f"{item}/") for name in values["files"])


def check_path(folder: Path) -> None:
    """UserError for a path in which Orbax writes checkpoints that it cannot read: for tensorstore,
    `[...]` is a pattern and a backslash is a slash."""
    if re.search(r"\\|\[.*\]", str(folder.absolute())):
        raise UserError(
            f"--workdir: checkpoints cannot be read from {folder}: expected a path without "
            "backslashes and brackets"
        )


def _shapes(tree: Tree) -> dict[str, tuple[int, ...]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator="/")
    return {name(path): tuple(x.shape) for path, x in paths}
