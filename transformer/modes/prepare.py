"""--mode=prepare: builds corpora, vocabulary and token ids of a config, without training."""

import logging
from pathlib import Path
from types import ModuleType

from ml_collections import ConfigDict

from transformer.checkpoints import manager, store
from transformer.distributed import processes
from transformer.errors import UserError
from transformer.models import boxes
from transformer.runtime import lock, paths
from transformer.tasks.task import Task, load_task
from transformer.training import optimizer
from transformer.workdir import saved_config


def prepare(config: ConfigDict, workdir: Path) -> Task:
    """Checks the config, builds missing data, and returns the `Task`. Collective."""
    store.check_path(workdir)
    task_module = check(config)
    with lock.locked(workdir):
        config = prepare_workdir(task_module, config, workdir)
    # Outside the workdir's lock, because `build` writes only token ids into data_dir.
    task = task_module.build(config, workdir)
    logging.info("prepared: %s; config and vocabulary are in %s", task.about, workdir)
    return task


def check(config: ConfigDict) -> ModuleType:
    """Checks that the values of a config fit together, and returns the task's module.

    UserError for values that cannot work, before the run writes or compiles anything. `key_tables`
    has checked the single values.
    """
    task_module = load_task(config.task)
    optimizer.check(**config.optimizer.to_dict())
    task_module.check(config)
    train = config.data.get("train")
    message = "config.data.%s=%r is the training data: its score says nothing about other data"
    for split in ("validation", "test"):
        if train and config.data.get(split) == train and processes.is_first():
            logging.warning(message, split, train)
    return task_module


def prepare_workdir(task_module: ModuleType, config: ConfigDict, workdir: Path) -> ConfigDict:
    """Prepares a workdir for its run and returns the resolved config.

    If the workdir has a checkpoint, the run resumes, and a config that differs in more than the
    free keys is refused. Otherwise a new run starts, and replaces an older config and vocabulary.

    Collective: process 0 prepares first. Other processes then read the workdir, and without a
    shared disk prepare their own.
    """
    with processes.first_process_first("prepared"):
        # Resolve references, such as decay_steps to num_steps, for config.json.
        config = config.copy_and_resolve_references()
        config.model.update(boxes.written_out(config.model))
        resumed = manager.resumable(workdir)
        saved = None
        # In a new run, the other processes read the config that process 0 has written.
        if resumed or not processes.is_first():
            saved = _saved(workdir, config)
            free = (*saved_config.FREE, *task_module.FREE)
            saved_config.check_same_run(config, saved, workdir, free)
        if config.train.init_from and not resumed:
            best = paths.path(config.train.init_from) / store.BEST
            if not store.complete_steps(best):
                raise UserError(
                    f"config.train.init_from: {best} holds no complete checkpoint; expected the "
                    "workdir of a run that has been validated"
                )
        config = task_module.prepare(config, workdir, saved)
        if not resumed:  # a resumed run writes it after restoring its checkpoint
            saved_config.write_config(config, workdir)
        return config


def _saved(workdir: Path, config: ConfigDict) -> ConfigDict:
    """Returns the config that a run started with, from its config.json.

    If the file is missing (no shared disk) or damaged, logs a warning and returns `config`, because
    a run can do without the file. Its fingerprints are "", so that the vocabulary and checkpoints
    of the workdir are accepted.
    """
    try:
        return saved_config.read_config(workdir)
    except UserError as error:
        action = "will be rewritten from --config" if processes.is_first() else "is not used"
        logging.warning("%s; config.json %s", error, action)
        return config.copy_and_resolve_references()
