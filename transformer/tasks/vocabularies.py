"""The folder vocabulary/ of a workdir: `prepare` learns and writes it, `read` loads it."""

import hashlib
import importlib.metadata
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from ml_collections import ConfigDict

from transformer.data import corpora, tokenizer, vocabulary
from transformer.data.vocabulary import Vocabulary
from transformer.errors import UserError, check_values
from transformer.runtime import checksums, drafts, paths
from transformer.tasks import splits

# Far beyond any text; from 2^31 / 1.1 on SentencePiece would not end.
SIZE = "at least 1 and at most 100000000"


def check(options: ConfigDict, kinds: Sequence[str]) -> None:
    """Raises UserError for invalid values of `config.vocabulary`; `kinds` are the allowed kinds."""
    rules = {"kind": kinds, "normalisation": tokenizer.NORMALISATIONS, "size": SIZE}
    check_values("vocabulary", options, rules)


def check_text(options: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.vocabulary` in the tasks of plain text."""
    check(options, (*tokenizer.KINDS, "characters"))
    if options.kind == "characters" and options.model and not paths.path(options.model).is_dir():
        raise UserError(
            f"config.vocabulary.model={options.model!r} must be a folder: config.vocabulary.kind="
            "'characters' takes WORKDIR/vocabulary of another run"
        )


def prepare(
    config: ConfigDict, folder: Path, saved_config: ConfigDict | None, train: corpora.Corpus
) -> Vocabulary:
    """Returns the vocabulary of a run; a new run first learns it, or takes another run's over.

    Fills in `config.data.fingerprint`, that of the training text, and
    `config.vocabulary.fingerprint`. `saved_config` is the argument of a task's `prepare`, None in a
    new run. UserError if a resumed run has other text, or a damaged vocabulary.
    """
    splits.fill_in_fingerprint(config, folder, saved_config, train)
    if saved_config is None:
        contents = given(config) if config.vocabulary.model else _learnt(config, train)
        vocab = write(folder, config, contents)
    else:
        config.vocabulary.fingerprint = saved_config.vocabulary.fingerprint
        vocab = read(folder, config)
    config.vocabulary.fingerprint = vocab.fingerprint
    return vocab


def names(config: ConfigDict) -> list[str]:
    """Returns the names of the files in vocabulary/ (see `vocabulary.load`).

    A vocabulary of sentence pairs has the key `shared` in the config, one of plain text does not.
    """
    options, both = config.vocabulary, ("source", "target")
    if "shared" not in options:
        return ["text.characters" if options.kind == "characters" else "text.model"]
    sides = ("shared",) if options.shared else both
    if options.kind == "table":
        return [f"{x}.model" for x in both] + [f"{x}.pieces" for x in sides]
    return [f"{x}.model" for x in sides]


def given(config: ConfigDict) -> dict[str, bytes]:
    """Returns {name: content} of the files that `config.vocabulary.model` stands for.

    The value is the folder WORKDIR/vocabulary of another run, or SentencePiece models: one file, or
    'SOURCE,TARGET' where each side has its own. A table of pieces is only taken as a folder,
    together with its models. UserError if a file is missing, or is not a model with the ids of
    tokenizer.py.
    """
    source, wanted = config.vocabulary.model, names(config)
    what, folder = f"config.vocabulary.model={source}", paths.path(source)
    only_models = all(name.endswith(".model") for name in wanted)
    if folder.is_dir():
        files = [folder / name for name in wanted]
    elif only_models:
        files = [paths.path(name) for name in source.split(",")]
    else:
        raise UserError(f"{what} is not a folder: expected WORKDIR/vocabulary of another run")
    if len(files) != len(wanted):
        expected = "one, as the vocabulary is shared" if len(wanted) == 1 else "two: SOURCE,TARGET"
        raise UserError(f"{what} names {len(files)} file(s), expected {expected}")
    for file in files:
        if not file.is_file():
            hint = (
                ": expected the vocabulary of a run with the same config.vocabulary.kind and shared"
            )
            raise UserError(f"{what}: {file} does not exist{hint if folder.is_dir() else ''}")
    contents = [file.read_bytes() for file in files]
    if only_models:
        for file, content in zip(files, contents, strict=True):
            tokenizer.load(content, str(file))  # raises UserError with the path
    return dict(zip(wanted, contents, strict=True))


def _learnt(config: ConfigDict, train: corpora.Corpus) -> dict[str, bytes]:
    """Returns {name: content} of the vocabulary's files, learnt or from a cache in `data_dir`.

    The cache is a folder whose name is a hash of the training text's fingerprint, the settings, the
    seed and SentencePiece's version. If several processes write it, all use the folder of the first
    to finish. If a checksum does not match, a warning names the file, and the vocabulary is learnt
    again. UserError if the disk is full.
    """
    options = config.vocabulary
    # All that the vocabulary depends on; `fingerprint` is a result, and `model` is empty here.
    settings = {**options, "fingerprint": "", "model": ""}
    learner = importlib.metadata.version("sentencepiece")
    about = json.dumps([train.fingerprint, settings, config.train.seed, learner], sort_keys=True)
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    directory = Path(corpora.local_folder(config.data.data_dir), "vocabularies", key)
    if drafts.is_intact(directory, "learning the vocabulary again"):
        logging.info("the vocabulary is in %s: same text, same settings", directory)
        return {name: (directory / name).read_bytes() for name in names(config)}
    contents = vocabulary.learn(
        train,
        names(config),
        kind=options.kind,
        size=options.size,
        character_coverage=options.character_coverage,
        normalisation=options.normalisation,
        max_sentences=options.max_sentences,
        seed=config.train.seed,
    )
    # A draft: the cache appears whole or not at all, even if the process is killed here.
    with paths.full_disk_as_user_error(directory.parent), drafts.draft(directory) as draft:
        for name, content in contents.items():
            (draft / name).write_bytes(content)
    return contents


def write(workdir: Path, config: ConfigDict, contents: dict[str, bytes]) -> Vocabulary:
    """Writes the files of a workdir's vocabulary, {name: content}, and returns it loaded.

    Beside them are a readable table of each model's pieces, and checksums of all files.
    """
    folder = workdir / "vocabulary"
    loaded = load(config, {str(folder / name): content for name, content in contents.items()})
    for name, content in contents.items():
        file = folder / name
        paths.write_file(file, content)
        if file.suffix == ".model":
            table = tokenizer.table(tokenizer.load_processor(content, str(file)))
            paths.write_file(file.with_suffix(".vocab"), table.encode())
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))
    return loaded


def read(workdir: Path, config: ConfigDict) -> Vocabulary:
    """Loads a run's vocabulary.

    UserError if a file is missing or damaged, or its fingerprint is not that of the config.
    """
    folder, wanted = workdir / "vocabulary", names(config)
    files = [folder / name for name in wanted]
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} is missing: the run cannot be used without its vocabulary")
    if faults := checksums.corrupt_files(folder, wanted=wanted.__contains__, alone=True):
        raise UserError(
            f"damaged: {', '.join(faults)}: the run cannot be used without its vocabulary"
        )
    loaded = load(config, {str(file): file.read_bytes() for file in files})
    expected = config.vocabulary.fingerprint  # "" if config.json was lost; checkpoints have it, too
    if expected and loaded.fingerprint != expected:
        raise UserError(
            f"{folder} holds the vocabulary {loaded.fingerprint}, but this run was trained with "
            f"{expected}: texts would have other ids"
        )
    return loaded


def load(config: ConfigDict, contents: dict[str, bytes]) -> Vocabulary:
    """Loads a vocabulary from its files, {path: content}, as its settings say."""
    return vocabulary.load(contents, normalisation=config.vocabulary.normalisation)


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the vocabulary's fingerprint, which says what ids mean; "" before `prepare`."""
    return {"vocabulary": config.vocabulary.fingerprint}


def text_sizes(config: ConfigDict, folder: Path | None) -> dict[str, int]:
    """Returns {'vocab_size'} of the workdir's plain text; `folder` None: of the config."""
    if folder is None:
        return {"vocab_size": config.vocabulary.size}
    return {"vocab_size": len(read(folder, config))}
