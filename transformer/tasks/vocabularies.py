"""The vocabulary of a run, in its workdir: learnt once from a text, and cached by its content."""

import hashlib
import importlib.metadata
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_collections

from transformer.data import corpora, tokenizer, vocabulary
from transformer.errors import UserError, check_values
from transformer.runtime import drafts, paths
from transformer.workdir import workdir

KINDS_OF_TEXT = (*tokenizer.KINDS, "characters")
# Far beyond any text; from 2^31 / 1.1 on SentencePiece would not end.
SIZE = "at least 1 and at most 100000000"


def check(options: ml_collections.ConfigDict, kinds: Sequence[str]) -> None:
    """Raises UserError for invalid values of `config.vocabulary`; `kinds` are the allowed kinds."""
    rules = {"kind": kinds, "normalisation": tokenizer.NORMALISATIONS, "size": SIZE}
    check_values("vocabulary", options, rules)


def check_text(options: ml_collections.ConfigDict) -> None:
    """Raises UserError for invalid values of `config.vocabulary` in the tasks of plain text."""
    check(options, KINDS_OF_TEXT)
    if options.kind == "characters" and options.model and not paths.path(options.model).is_dir():
        raise UserError(
            f"config.vocabulary.model={options.model!r} is no folder: config.vocabulary.kind="
            "'characters' takes WORKDIR/vocabulary of another run"
        )


def prepare(
    config: ml_collections.ConfigDict,
    folder: Path,
    saved_config: ml_collections.ConfigDict | None,
    train: corpora.Corpus | corpora.Text,
    learn: Callable[[ml_collections.ConfigDict, corpora.Corpus | corpora.Text], list[bytes]],
) -> workdir.Vocabulary:
    """Returns the vocabulary of a run; in a new run, first learns it, or takes another run's over.

    Fills in `config.data.fingerprint`, that of the training text, and
    `config.vocabulary.fingerprint`. `saved_config` is the argument of a task's `prepare`, None in a
    new run. `learn(config, train)` returns the contents of the vocabulary's files, and is called if
    they are not cached. UserError if a resumed run has other text, or a damaged vocabulary.
    """
    config.data.fingerprint = train.fingerprint
    if saved_config is None:
        names = [file.name for file in workdir.vocabulary_files(folder, config)]
        if config.vocabulary.model:
            contents = vocabulary.read(config.vocabulary.model, names)
        else:
            contents = _learnt(config, train, names, learn)
        vocab = workdir.write_vocabulary(folder, config, contents)
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
    """Returns the vocabulary size of plain text: the workdir's, or without one the config's."""
    if folder is None:
        return {"vocab_size": config.vocabulary.size}
    return {"vocab_size": len(workdir.read_vocabulary(folder, config))}


def learn_text(config: ml_collections.ConfigDict, train: corpora.Text) -> list[bytes]:
    """Learns the vocabulary of plain text, and returns the content of its one file in a list."""
    options = config.vocabulary
    learnt = vocabulary.learn_text(
        train,
        kind=options.kind,
        size=options.size,
        character_coverage=options.character_coverage,
        normalisation=options.normalisation,
        max_sentences=options.max_sentences,
        seed=config.train.seed,
    )
    return [learnt]


def _learnt(
    config: ml_collections.ConfigDict,
    train: corpora.Corpus | corpora.Text,
    names: Sequence[str],
    learn: Callable[[ml_collections.ConfigDict, corpora.Corpus | corpora.Text], list[bytes]],
) -> list[bytes]:
    """Returns the contents of the vocabulary's files, learnt or from their cache in `data_dir`.

    The cache is a folder whose name is a hash of the training text's fingerprint, the settings, the
    seed and SentencePiece's version. If several processes write it, all use the folder of the first
    to finish. If a checksum does not match, a warning names the file, and the vocabulary is learnt
    again. UserError if the disk is full.
    """
    # All that the vocabulary depends on. Its own fingerprint is a result of it.
    settings = {**config.vocabulary, "fingerprint": "", "model": ""}
    learner = importlib.metadata.version("sentencepiece")
    about = json.dumps([train.fingerprint, settings, config.train.seed, learner], sort_keys=True)
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    directory = Path(corpora.local_folder(config.data.data_dir), "vocabularies", key)
    if drafts.is_intact(directory, "learning the vocabulary again"):
        logging.info("the vocabulary is in %s: same text, same settings", directory)
        return [(directory / name).read_bytes() for name in names]
    contents = learn(config, train)
    # A draft: the cache appears whole or not at all, even if the process is killed here.
    with paths.full_disk_as_user_error(directory.parent), drafts.draft(directory) as draft:
        for name, content in zip(names, contents, strict=True):
            (draft / name).write_bytes(content)
    return contents
