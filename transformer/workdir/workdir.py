"""Writes a run's config.json, and checks which of its keys changed when the run is resumed."""

import importlib.metadata
import logging
from pathlib import Path

from ml_collections import ConfigDict

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.workdir.config_files import flatten

# Keys, or prefixes of keys, that may change when a run is resumed: number of steps, logging,
# saving, layout, evaluation, and the schedule of the learning rate, which may have to be lowered. A
# task's FREE has more of them.
FREE = (
    "train.num_steps",
    "train.accumulate",
    "train.log_every",
    "train.save_every",
    "train.keep",
    "train.trackers",
    "train.init_",  # read by a new run only
    "optimizer.schedule.",
    "parallel.",
    "evaluate.",
    "compilation_cache",
    "kernels",
    # The texts themselves have a fingerprint, which may not change.
    "data.data_dir",
    "data.directory",
    "data.train",
    "data.validation",
    "data.test",
    "loss.blocks",
    "model.dtype",
    "model.remat",
    "vocabulary.model",
)


PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")


def write_config(config: ConfigDict, workdir: Path) -> None:
    """Writes config.json from process 0: the resolved config and the versions of packages.

    The coordinator's address and process ids are left out, because they change with each start.
    """
    if not processes.is_first():
        return
    config = ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    json_files.write(workdir / "config.json", {**config.to_dict(), "versions": versions()})


def versions() -> dict[str, str]:
    """Returns the versions of the packages that results may depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def check_same_run(
    config: ConfigDict, saved_config: ConfigDict, workdir: Path, free: tuple[str, ...]
) -> None:
    """Raises UserError if a resumed run's config differs from the one it started with.

    Keys that begin with one of `free` may differ; a change of the learning rate's schedule is
    logged. A fingerprint or language that is not filled in yet ("") is not compared. Another key
    that `saved_config` lacks is logged.
    """
    saved, current = flatten(saved_config), flatten(config)
    bound = [key for key in current if not key.startswith(free)]
    # Named first: where one of these differs, so do other keys.
    first = [key for key in ("task", "architecture", "optimizer.name") if key in bound]
    dropped = sorted(saved.keys() - current.keys())
    arguments = [key for key in dropped if key.startswith("optimizer.arguments.")]
    for key in filter(saved.__contains__, [*first, *bound, *arguments]):
        now = f"it is {current[key]!r}" if key in current else "it has no value"
        unknown = key.endswith(("fingerprint", "_language")) and not current[key]
        if current.get(key) != saved[key] and not unknown:
            raise UserError(
                f"{workdir} was trained with config.{key}={saved[key]!r}, now {now}: use the old "
                "value, or give another --workdir"
            )
    schedules = [dict(x.get("optimizer", {}).get("schedule", {})) for x in (saved_config, config)]
    if schedules[0] != schedules[1]:
        logging.warning("the learning rate's schedule was %s, now it is %s", *schedules)
    if new := [f"{key}={current[key]!r}" for key in bound if key not in saved]:
        logging.warning("config.json has no %s: resuming with these values", ", ".join(sorted(new)))
