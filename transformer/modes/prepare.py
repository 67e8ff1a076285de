"""--mode=prepare: builds corpora, vocabulary and token ids of a config, without training."""

import logging
from pathlib import Path
from types import ModuleType

import ml_collections

from transformer.checkpoints import manager, store, workdir
from transformer.checkpoints.config_files import check_finite
from transformer.checkpoints.weights import WEIGHTS
from transformer.distributed import layout, processes
from transformer.errors import UserError
from transformer.storage import lock
from transformer.tasks.task import Task, load_task
from transformer.training import loop


def prepare(config: ml_collections.ConfigDict, folder: Path) -> Task:
    """Checks the config and builds what is missing; returns the task. Collective."""
    store.check_path(folder)
    task = check(config)
    with lock.locked(folder):
        config = prepare_workdir(task, config, folder)
    built = task.build(config, folder)
    logging.info("prepared: %s; config and vocabulary are in %s", built.about, folder)
    return built


def check(config: ml_collections.ConfigDict) -> ModuleType:
    """Checks all values of a config and returns the module of its task.

    Raises UserError for invalid values, before anything is written or compiled.
    """
    task = load_task(config.task)
    check_finite(config)
    layout.check(config.parallel.strategy)
    if config.evaluate.weights not in WEIGHTS:
        raise UserError(
            f"config.evaluate.weights is one of {', '.join(WEIGHTS)}, found "
            f"{config.evaluate.weights!r}"
        )
    loop.check(config)
    task.check(config)
    return task


def prepare_workdir(
    task: ModuleType, config: ml_collections.ConfigDict, folder: Path
) -> ml_collections.ConfigDict:
    """Prepares a workdir for its run and returns the resolved config.

    If the workdir has a checkpoint, the run is resumed, and a config that differs in more than the
    free keys is refused. Otherwise a new run begins, and replaces an older config and vocabulary.

    Collective: process 0 prepares first; the others then read the workdir, and prepare themselves
    what is not on a shared disk.
    """
    with processes.first_process_first("prepared"):
        config = config.copy_and_resolve_references()
        resumed = manager.resumable(folder)
        saved_config = None
        # Of a new run, the other processes read the config that process 0 has just written.
        if resumed or not processes.is_first():
            saved_config = _saved_config(folder, config)
            free = (*workdir.FREE, *task.FREE)
            workdir.check_same_run(config, saved_config, folder, free)
        config = task.prepare(config, folder, saved_config)
        if not resumed:  # a resumed run writes it once its checkpoint is restored
            workdir.write_config(config, folder)
        return config


def _saved_config(folder: Path, config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the config that a run began with, or `config` with a warning if it is damaged.

    Checkpoints do not need config.json, and --config has the same values but for fingerprints,
    which are "": vocabulary and checkpoints are read as they are.
    """
    try:
        return workdir.read_config(folder)
    except UserError as error:
        logging.warning("%s; config.json will be rewritten from --config", error)
        return config.copy_and_resolve_references()
