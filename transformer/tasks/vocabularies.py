"""The vocabulary of a run, in its workdir: learnt once, and never again for what it trains."""

import importlib.metadata
import logging
from collections.abc import Callable
from pathlib import Path

import ml_collections

from transformer.checkpoints import workdir
from transformer.data import corpora, vocabulary
from transformer.errors import UserError


def prepare(
    config: ml_collections.ConfigDict,
    folder: Path,
    saved_config: ml_collections.ConfigDict | None,
    train: corpora.Corpus | corpora.Text,
    learn: Callable[[ml_collections.ConfigDict, corpora.Corpus | corpora.Text], list[bytes]],
) -> workdir.Vocabulary:
    """Returns the vocabulary of a run, learnt and written into the workdir in a new one.

    Fills in `config.data.fingerprint`, that of the training text, and
    `config.vocabulary.fingerprint`. `saved_config` is that of a task's `prepare`; `learn(config,
    train)` returns the contents of the vocabulary's files. UserError if a resumed run has other
    text, or if its vocabulary is damaged.
    """
    config.data.fingerprint = train.fingerprint
    if saved_config is None:
        vocab = _reusable(config, folder)
        if not vocab:
            files = workdir.vocabulary_files(folder, config)
            vocab = workdir.write_vocabulary(files, learn(config, train))
    else:
        if saved_config.data.fingerprint not in ("", train.fingerprint):  # "": lost
            text = f"the text of {' or '.join(train.files) or config.data.corpus}"
            raise UserError(
                f"{folder} was trained on different text: {text} has changed since (config.data."
                "fingerprint); restore the old text, or give another --workdir"
            )
        config.vocabulary.fingerprint = saved_config.vocabulary.fingerprint
        vocab = workdir.read_vocabulary(folder, config)
    config.vocabulary.fingerprint = vocab.fingerprint
    return vocab


def learn_text(config: ml_collections.ConfigDict, train: corpora.Text) -> list[bytes]:
    """Returns the file of plain text's vocabulary: that of `vocabulary.model`, or a learnt one."""
    options = config.vocabulary
    if options.model:
        return vocabulary.read_models(options.model, shared=True)
    learnt = vocabulary.learn_text(
        train,
        kind=options.kind,
        size=options.size,
        character_coverage=options.character_coverage,
        max_sentences=options.max_sentences,
        seed=config.train.seed,
    )
    return [learnt]


def _reusable(config: ml_collections.ConfigDict, folder: Path) -> workdir.Vocabulary | None:
    """Returns the workdir's vocabulary if learning again would give the same one, else None.

    That is so after --mode=prepare with the same text, settings, seed and SentencePiece version.
    """

    def settings(config: ml_collections.ConfigDict, learner: str) -> tuple:
        options = {**config.vocabulary, "fingerprint": ""}
        return options, config.data.fingerprint, config.train.seed, learner

    try:
        saved_config = workdir.read_config(folder)
        vocab = workdir.read_vocabulary(folder, saved_config)
        learner = saved_config.versions.sentencepiece
        saved = settings(saved_config, learner)
    except (UserError, AttributeError):  # missing, damaged, or of another task: learn it again
        return None
    wanted = settings(config, importlib.metadata.version("sentencepiece"))
    if config.vocabulary.model or saved != wanted:
        return None
    logging.info("reusing the vocabulary in %s: same text, same settings", folder)
    return vocab
