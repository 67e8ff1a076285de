"""The vocabulary of a run, in its workdir: learnt once, and never again for what it trains."""

import importlib.metadata
import logging
from collections.abc import Callable
from pathlib import Path

import ml_collections

from transformer.checkpoints import workdir
from transformer.data import corpora, tokenizer, vocabulary
from transformer.errors import UserError
from transformer.storage import paths

KINDS_OF_TEXT = (*tokenizer.KINDS, "characters")


def check_text(kind: str, model: str) -> None:
    """Raises UserError for invalid values of `config.vocabulary` in the tasks of plain text."""
    if kind not in KINDS_OF_TEXT:
        raise UserError(
            f"config.vocabulary.kind is one of {', '.join(KINDS_OF_TEXT)}, found {kind!r}"
        )
    if kind == "characters" and model and not paths.path(model).is_dir():
        raise UserError(
            f"config.vocabulary.model={model!r} is no folder: config.vocabulary.kind='characters' "
            "takes WORKDIR/vocabulary of another run"
        )


def prepare(
    config: ml_collections.ConfigDict,
    folder: Path,
    saved_config: ml_collections.ConfigDict | None,
    train: corpora.Corpus | corpora.Text,
    learn: Callable[[ml_collections.ConfigDict, corpora.Corpus | corpora.Text], list[bytes]],
) -> workdir.Vocabulary:
    """Returns the vocabulary of a run, learnt or taken over into the workdir in a new one.

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
            source_end = config.vocabulary.get("source_end", True)
            if config.vocabulary.model:
                names = [file.name for file in files]
                contents = vocabulary.read(config.vocabulary.model, names)
            else:
                contents = learn(config, train)
            vocab = workdir.write_vocabulary(files, contents, source_end=source_end)
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


def identity(config: ml_collections.ConfigDict) -> dict[str, str]:
    """Returns the vocabulary's fingerprint, which says what ids mean; "" before `prepare`."""
    return {"vocabulary": config.vocabulary.fingerprint}


def text_sizes(config: ml_collections.ConfigDict, folder: Path | None) -> dict[str, int]:
    """Returns the size of plain text's vocabulary: of the workdir, or of the config without one."""
    if folder is None:
        return {"vocab_size": config.vocabulary.size}
    return {"vocab_size": len(workdir.read_vocabulary(folder, config))}


def learn_text(config: ml_collections.ConfigDict, train: corpora.Text) -> list[bytes]:
    """Returns the learnt file of plain text's vocabulary."""
    options = config.vocabulary
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
