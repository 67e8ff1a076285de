"""A folder of checkpoints by step, saved by Orbax with checksums of the files.

Orbax renames a step's folder into place once all its arrays are written. Then we sync the files to
the disk and write `checksums.json` beside them. A step without that file is an incomplete
checkpoint, and is never read. A flipped bit, which Orbax would restore silently, is a checksum
mismatch.

Methods are collective unless their docstring says otherwise.
"""

import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import checksums, paths

Tree = Any


# The folders of a workdir, and the items of a step.
PLACES = LATEST, AVERAGED, BEST = ("checkpoints", "params", "best")
PARAMS, OPT_STATE = ITEMS = ("params", "opt_state")

IMPORTED = 0  # the step of imported params


class CheckpointStore:
    """Checkpoints in FOLDER/STEP: some of ITEMS (trees of arrays) and a JSON record."""

    def __init__(self, folder: Path):
        """Opens a folder; the first save creates it."""
        check_path(folder)
        # absolute() would turn gs://BUCKET into a local path.
        self.folder = folder if paths.in_bucket(folder) else folder.absolute()
        # checkpoints/ and best/ can save the same step, so their barriers need different names.
        options = ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=folder.name)
        handler = ocp.CompositeCheckpointHandler()  # of the items that the arguments name
        self._orbax = ocp.AsyncCheckpointer(handler, multiprocessing_options=options)

    def path(self, step: int) -> Path:
        """Returns the folder of a step. Not collective."""
        return self.folder / str(step)

    def steps(self) -> list[int]:
        """Lists the complete steps, in ascending order."""
        # Process 0's listing, because a shared disk may show other processes an older state.
        return processes.all_gather(complete_steps(self.folder))[0]

    def save(self, step: int, items: dict[str, Tree]) -> None:
        """Starts saving a step, replacing an older one; arrays may be donated on return.

        The step stays incomplete until `complete` is called.
        """
        if processes.is_first():
            delete(self.path(step))
        processes.all_gather(None)  # a barrier, so that every process sees the deletion
        saves = {name: ocp.args.StandardSave(tree) for name, tree in items.items()}
        self._orbax.save(self.path(step), args=ocp.args.Composite(**saves))

    def complete(self, step: int, about: dict) -> None:
        """Waits until a step is on the disk, then writes its checksums and the record `about`.

        May run in a thread, because only Orbax makes collective calls here, with its own barriers.
        """
        self._orbax.wait_until_finished()
        if processes.is_first():
            path = self.path(step)
            _seal(path, checksums.checksums_of(path, about))

    def copy_params(self, source: Path, step: int) -> None:
        """Copies the params of the complete checkpoint `source`. Only process 0 calls it.

        The copy keeps the source's checksums, so that a corrupt copy is noticed when it is read.
        """
        target = self.path(step)
        saved = checksums.read(source)
        files = {k: x for k, x in saved["files"].items() if not k.startswith(f"{OPT_STATE}/")}
        delete(target)  # if incomplete or damaged
        for name in files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with (source / name).open("rb") as read, (target / name).open("wb") as write:
                shutil.copyfileobj(read, write)
        _seal(target, checksums.content(files, saved["about"]))

    def keep(self, kept: Iterable[int]) -> None:
        """Deletes all steps but `kept`. Not collective: process 0 does the work."""
        if processes.is_first():
            for step in {*all_steps(self.folder)} - {*kept}:
                delete(self.path(step))

    def remove_drafts(self) -> None:
        """Removes the drafts of killed saves. Not collective: process 0 does the work."""
        if processes.is_first():
            for draft in self.folder.glob(f"*{ocp.utils.TMP_DIR_SUFFIX}*"):
                paths.remove(draft)

    def faults(self, step: int, *, without: str = "") -> list[str]:
        """Lists a complete step's damaged files, except those of the item `without`.

        Each process checks its share of the files.
        """
        wanted = lambda name: not (without and name.startswith(f"{without}/"))
        return checksums.corrupt_files(self.path(step), wanted=wanted) or []

    def about(self, step: int, name: str) -> Any:
        """Returns an entry of the record that `complete` wrote."""
        about = processes.all_gather(checksums.read(self.path(step)))[0]["about"]
        if name not in about:
            raise UserError(f"damaged: {self.path(step) / checksums.NAME} has no {name}")
        return about[name]

    def check_identity(self, step: int, identity: dict[str, str]) -> None:
        """Raises UserError if a step has another identity, such as another vocabulary."""
        saved = self.about(step, "identity")
        for name, value in identity.items():
            if saved.get(name) != value:
                raise UserError(
                    f"{self.path(step)} was trained with the {name} {saved.get(name)}, but this "
                    f"run's is {value}: its outputs would mean something else"
                )

    def restore(self, step: int, item: str, like: Tree) -> Tree:
        """Returns an item of a step; UserError if the saved shapes are not those of `like`.

        `like` is a tree of jax.ShapeDtypeStruct with the dtypes and shardings to restore to.
        """
        # Compare shapes first, because Orbax would truncate or pad arrays silently.
        if difference := different_shape(self.shapes(step, item), like):
            raise UserError(f"{self.path(step)} does not fit this config: {item} {difference}")
        restores = {item: ocp.args.StandardRestore(like)}
        return self._orbax.restore(self.path(step), args=ocp.args.Composite(**restores))[item]

    def shapes(self, step: int, item: str) -> Tree:
        """Returns an item of a step as jax.ShapeDtypeStructs. Not collective."""
        # Reads only this item, because the files of another item may be damaged.
        saved = ocp.StandardCheckpointHandler().metadata(self.path(step) / item).tree
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), saved)

    def close(self) -> None:
        """Waits for the save in progress and ends Orbax's threads."""
        self._orbax.close()


def all_steps(folder: Path) -> list[int]:
    """Lists all steps in a folder, even incomplete steps, in ascending order."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal())


def complete_steps(folder: Path) -> list[int]:
    """Lists the complete steps in a folder, in ascending order."""
    return [step for step in all_steps(folder) if (folder / str(step) / checksums.NAME).exists()]


def delete(path: Path) -> None:
    """Deletes a step, its checksums first, so that a kill leaves it incomplete."""
    (path / checksums.NAME).unlink(missing_ok=True)
    paths.remove(path)


def _seal(path: Path, content: bytes) -> None:
    """Completes a step: syncs its files, then writes its checksums and the record."""
    paths.sync(path)
    paths.write_file(path / checksums.NAME, content)


def signed(score: float, best_is: str) -> float:
    """Returns the score such that higher is better: negated if `best_is` is 'lowest'.

    NaN becomes -inf, so that it is never the best.
    """
    if math.isnan(score):
        return -math.inf
    return -score if best_is == "lowest" else score


def check_path(folder: Path) -> None:
    """Raises UserError for a path where Orbax could not read its own checkpoints.

    tensorstore reads `[...]` as a pattern and a backslash as a slash.
    """
    if re.search(r"\\|\[.*\]", str(folder.absolute())):
        raise UserError(
            f"--workdir: checkpoints cannot be read from {folder}: expected a path without "
            "backslashes and brackets"
        )


def different_shape(saved: Tree, expected: Tree) -> str:
    """Names the first array whose shape differs between two trees; '' if all shapes are equal.

    Example: 'head/bias has the shape (2,), expected (3,)'.
    """
    shapes, expected_shapes = _shapes(saved), _shapes(expected)
    for name in sorted(shapes.keys() | expected_shapes.keys()):
        shape, right = (x.get(name, "(none)") for x in (shapes, expected_shapes))
        if shape != right:
            return f"{name} has the shape {shape}, expected {right}"
    return ""


def _shapes(tree: Tree) -> dict[str, tuple[int, ...]]:
    """Returns {'layer_0/kernel': shape, ...}."""
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator="/")
    return {name(path): x.shape for path, x in jax.tree_util.tree_leaves_with_path(tree)}
