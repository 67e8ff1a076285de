"""--mode=prepare: corpora, vocabulary and ids of a config, written before training."""

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
    """Checks the config, builds what is missing in the workdir, and says what there is."""
    store.check_path(folder)
    task = check(config)
    with lock.alone_in(folder):
        config = settle(task, config, folder)
    built = task.build(config, folder)
    logging.info("prepared: %s; config and vocabulary are in %s", built.about, folder)
    return built


def check(config: ml_collections.ConfigDict) -> ModuleType:
    """The module of the config's task; UserError for values that cannot work, before anything is
    written or compiled."""
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


def settle(
    task: ModuleType, config: ml_collections.ConfigDict, folder: Path
) -> ml_collections.ConfigDict:
    """Prepares a workdir for its run, and gives the config that the run has.

    A workdir with a checkpoint has settled what it learns: another config is refused. One without
    has not, and what it holds is written again. Collective: process 0 prepares; the others read the
    workdir, and prepare what is not on a disk that they share.
    """
    with processes.first_process_first("prepared"):
        config = config.copy_and_resolve_references()
        settled = manager.resumable(folder)
        made = _config_of(folder) if settled or not processes.is_first() else None
        if made:
            free = (*workdir.FREE, *task.FREE)
            workdir.check_same_run(config, made, folder, free)
        config = task.prepare(config, folder, made)
        if made:
            workdir.check_same_run(config, made, folder, free)
        if not settled:  # else once it is known that the run goes on
            workdir.write_config(config, folder)
        return config


def _config_of(folder: Path) -> ml_collections.ConfigDict | None:
    """The config that a run began with; None, with a warning, if its file is damaged or lost: the
    checkpoints are whole without it, and --config says it again."""
    try:
        return workdir.read_config(folder)
    except UserError as error:
        logging.warning("%s; config.json is written again from --config, which is trusted", error)
        return None
