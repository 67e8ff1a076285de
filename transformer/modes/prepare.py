"""`--mode=prepare`: a config's corpora, vocabulary and ids, written before training."""

import logging
from pathlib import Path

import ml_collections

from transformer.checkpoints import store
from transformer.monitoring import progress
from transformer.storage import lock
from transformer.tasks.build import Prepared, build, check, training_batches


def prepare(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    """--mode=prepare: checks the config, builds what is missing, and says what there is."""
    store.check_path(workdir)
    check(config)
    with lock.alone_in(workdir):
        prepared = build(config, workdir)
    training = training_batches(*prepared[::2])
    pairs = sum(len(rows.pairs) for rows in training.groups)
    sizes = [progress.counted(len(pieces), "piece") for pieces in prepared.vocabulary]
    logging.info(
        "prepared: %s, %s, %s an epoch; ids are in %s, config and vocabulary in %s",
        progress.counted(pairs, "training pair"),
        f"a vocabulary of {' and '.join(sizes[: 1 if config.vocabulary.shared else 2])}",
        progress.counted(len(training), "batch", "batches"),
        *(prepared.tokens.directory, workdir),
    )
    return prepared
