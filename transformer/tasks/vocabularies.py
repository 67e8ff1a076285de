"""The folder vocabulary/ of a workdir: `prepare` learns and writes it, `read` loads it."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ml_collections import ConfigDict

from transformer import registry
from transformer.data import packing, tokenizer
from transformer.data.corpora import Corpus
from transformer.data.tokenizer import Pieces, Vocabulary
from transformer.errors import UserError
from transformer.runtime import checksums, paths, progress
from transformer.tasks import splits
from transformer.workdir.saved_config import read_config

# {stem of a file's name: the sides of the corpus that it is learnt from}
SIDES = {"shared": (0, 1), "source": (0,), "target": (1,), "text": (0,)}


class Kind(NamedTuple):
    """A value of `config.vocabulary.kind`: learns and loads vocabularies."""

    # (stems of SIDES that have their own vocabulary) -> the names of all files
    names: Callable[[Sequence[str]], list[str]]
    # (file) -> a side's vocabulary; file('model') is (content, path) of its file *.model
    load: Callable[[Callable[[str], tuple[bytes, str]]], Pieces]
    # (sentences, *, kind, size, character_coverage, tags) -> a file's content; None if not learnt
    learn: Callable[..., bytes] | None
    samples: bool = False  # whether it learns from a sample of a large corpus


def kind_named(name: str) -> Kind:
    """Returns a kind by its name, SentencePiece's unless registered."""
    if name in registry.VOCABULARIES:
        return registry.load(registry.VOCABULARIES[name])
    return Kind(
        names=lambda stems: [f"{stem}.model" for stem in stems],
        load=lambda file: tokenizer.load(*file("model")),
        learn=tokenizer.learn_pieces,
        samples=True,
    )


def prepare(
    config: ConfigDict, workdir: Path, saved_config: ConfigDict | None, train: Corpus
) -> Vocabulary | Pieces:
    """Returns the vocabulary of a run; a new run first learns it, or copies another run's.

    A vocabulary already learnt from the same text with the same settings is kept, as after
    --mode=prepare or a run without a checkpoint.

    Fills in `config.data.fingerprint` and `config.vocabulary.fingerprint`. `saved_config` is as in
    a task's `prepare`. UserError if a resumed run has other text, or a damaged vocabulary.
    """
    splits.fill_in_fingerprint(config, workdir, saved_config, train)
    if saved_config is not None:
        config.vocabulary.fingerprint = saved_config.vocabulary.get("fingerprint", "")
        vocab = read(workdir, config)
    elif (vocab := _kept(config, workdir)) is None:
        vocab = write(workdir, config, given(config) or learn(config, train))
    tags = _tags(train)
    if tags and (unknown := {*tags} - {*tokenizer.tags(vocab.source)}):
        hint = "a tag is one piece, such as <2de>, and learnt with the vocabulary"
        raise UserError(f"the vocabulary lacks {sorted(unknown)} of {train.files[0]}: {hint}")
    config.vocabulary.fingerprint = vocab.fingerprint
    return vocab


def names(config: ConfigDict) -> list[str]:
    """Returns the names of the files in vocabulary/ (see `load`).

    For sentence pairs the config has the key `shared`, for plain text it does not.
    """
    stems = {None: ["text"], True: ["shared"], False: ["source", "target"]}
    return kind_named(config.vocabulary.kind).names(stems[config.vocabulary.get("shared")])


def given(config: ConfigDict) -> dict[str, bytes]:
    """Returns {name: content} of the files in `config.vocabulary.model`; {} for ''.

    The value is WORKDIR/vocabulary of another run, or its files: one SentencePiece model, or
    'SOURCE,TARGET' for one model per side. UserError if a file is missing.
    """
    source, wanted = config.vocabulary.model, names(config)
    if not source:
        return {}
    files = [paths.path(name) for name in source.split(",")]
    if files[0].is_dir():
        files = [files[0] / name for name in wanted]
    if len(files) != len(wanted) or not all(file.is_file() for file in files):
        raise UserError(
            f"config.vocabulary.model={source}: expected WORKDIR/vocabulary of a run with the same "
            f"config.vocabulary.kind and shared, or files for {' and '.join(wanted)}"
        )
    return {name: file.read_bytes() for name, file in zip(wanted, files, strict=True)}


def learn(config: ConfigDict, train: Corpus) -> dict[str, bytes]:
    """Learns a vocabulary from the training text, and returns {name: content} of its files.

    shared.model is learnt from both sides of the training pairs, source.model and target.model from
    one side each, text.model from plain text. SentencePiece learns from at most `max_sentences`
    random sentences (0 for all), chosen by the seed.
    """
    options = config.vocabulary
    contents = {}
    if not kind_named(options.kind).learn:
        raise UserError(
            f"config.vocabulary.kind={options.kind!r} is not learnt, but taken from another run: "
            "set config.vocabulary.model to its WORKDIR/vocabulary"
        )
    logging.info("learning the vocabulary: %s", options.kind)
    with progress.waiting("learn the vocabulary"):
        for name in names(config):
            contents[name] = kind_named(options.kind).learn(
                _sentences(config, train, SIDES[Path(name).stem]),
                kind=options.kind,
                size=options.size,
                character_coverage=options.character_coverage,
                tags=_tags(train) if 0 in SIDES[Path(name).stem] else (),
            )
    return contents


def _tags(train: Corpus) -> tuple[str, ...]:
    """Returns the tags of the corpora of a mixture, each once."""
    return tuple(filter(None, dict.fromkeys(part["tag"] for part in train.mixture)))


def _sentences(config: ConfigDict, train: Corpus, sides: Sequence[int]) -> Iterator[str]:
    """Yields the sentences of `sides`: all, or about `max_sentences` of random items."""
    options = config.vocabulary
    chosen = np.arange(len(train))
    if train.mixture:
        sizes = [part["size"] for part in train.mixture]
        reads = zip(sizes, packing.counts_of(train.mixture, sizes), strict=True)
        chosen = packing.rows_of_epoch([*reads], 0, config.train.seed)
    most = options.max_sentences if kind_named(options.kind).samples else 0
    if most and len(sides) * len(chosen) > most:
        shuffled = np.random.default_rng(config.train.seed).permutation(chosen)
        # Sorted, because the corpus is read from start to end.
        chosen = np.sort(shuffled[: most // len(sides)])
    for texts in train.chunks(chosen):
        for side in sides:
            yield from tokenizer.normalised(texts[side], options.normalisation)


def _kept(config: ConfigDict, workdir: Path) -> Vocabulary | Pieces | None:
    """Returns the workdir's vocabulary if it was learnt from this text with these settings."""
    made_of = lambda c: (c.data.fingerprint, {**c.vocabulary, "fingerprint": ""}, c.train.seed)
    with contextlib.suppress(UserError, AttributeError):  # missing, damaged, or of another task
        saved_config = read_config(workdir)
        if not config.vocabulary.model and made_of(saved_config) == made_of(config):
            return read(workdir, saved_config)
    return None


def write(workdir: Path, config: ConfigDict, contents: dict[str, bytes]) -> Vocabulary | Pieces:
    """Writes a workdir's vocabulary, {name: content}, and returns it loaded."""
    loaded = load(config, contents, config.vocabulary.model or workdir)
    write_files(workdir, contents)
    return loaded


def read(workdir: Path, config: ConfigDict) -> Vocabulary | Pieces:
    """Loads a run's vocabulary.

    UserError if a file is missing or damaged, or its fingerprint differs from the config's.
    """
    loaded = load(config, read_files(workdir, names(config)), workdir)
    check_fingerprint(workdir, loaded.fingerprint, config.vocabulary.fingerprint)
    return loaded


def write_files(workdir: Path, contents: dict[str, bytes]) -> None:
    """Writes files {name: content} into WORKDIR/vocabulary, and the checksums of the folder."""
    folder = workdir / "vocabulary"
    for name, content in contents.items():
        paths.write_file(folder / name, content)
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))


def read_files(workdir: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Returns {name: content} of files in WORKDIR/vocabulary; UserError for a damaged file."""
    folder = workdir / "vocabulary"
    faults = checksums.corrupt_files(folder, wanted=wanted.__contains__, alone=True) or [
        f"{folder / name} (missing)" for name in wanted if not (folder / name).is_file()
    ]
    if faults:
        raise UserError(f"damaged: {', '.join(faults)}: the run cannot be used without it")
    return {name: (folder / name).read_bytes() for name in wanted}


def check_fingerprint(workdir: Path, fingerprint: str, expected: str) -> None:
    """Raises UserError if the fingerprint of WORKDIR/vocabulary is not the run's.

    `expected` is "" if config.json was lost; checkpoints have the fingerprint, too.
    """
    if expected and fingerprint != expected:
        raise UserError(
            f"{workdir / 'vocabulary'} has the fingerprint {fingerprint}, but this run was trained "
            f"with {expected}: ids would have another meaning"
        )


def load(config: ConfigDict, contents: dict[str, bytes], place: Path | str) -> Vocabulary | Pieces:
    """Loads a vocabulary from its files, {name: content}; UserError if a file is damaged.

    Pairs have shared.model, or source.model and target.model; plain text has text.model. Other
    kinds than SentencePiece's have other suffixes. Errors name the `place` of the files.
    """
    options = config.vocabulary

    def side(stem: str) -> Pieces:
        def file(suffix: str) -> tuple[bytes, str]:
            # The side's own file, such as source.model, or else shared.model.
            name = f"{stem}.{suffix}"
            if name not in contents:
                name = f"shared.{suffix}"
            return contents[name], f"{name} of {place}"

        pieces = kind_named(options.kind).load(file)
        return dataclasses.replace(pieces, normalisation=options.normalisation)

    if any(name.startswith("text.") for name in contents):
        return side("text")
    # Shared sides are one object, because Vocabulary.shared compares identity.
    source = side("source")
    return Vocabulary(source, source if "shared.model" in contents else side("target"))


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the vocabulary's fingerprint, which defines the ids; "" before `prepare`."""
    return {"vocabulary": config.vocabulary.fingerprint}


def text_sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns {'vocab_size'} of the workdir's plain text; if `workdir` is None, of the config."""
    if workdir is None:
        return {"vocab_size": config.vocabulary.size}
    return {"vocab_size": len(read(workdir, config))}
