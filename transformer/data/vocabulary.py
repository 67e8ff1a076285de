"""The vocabulary of a run: read from files, or learnt from its training text."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer.data import characters, corpora, piece_table, tokenizer
from transformer.data.piece_table import PieceTable
from transformer.errors import UserError
from transformer.runtime import paths, progress


def read(source: str, names: Sequence[str]) -> list[bytes]:
    """Returns the contents of the files that `config.vocabulary.model` names, one for each name.

    `source` is the folder WORKDIR/vocabulary of another run, or SentencePiece models: one file, or
    'SOURCE,TARGET' where each side has its own. A table of pieces belongs to its models, and is
    taken with them, as a folder. UserError if a file is missing, or is not a model with the ids of
    tokenizer.py.
    """
    what, folder = f"config.vocabulary.model={source}", paths.path(source)
    only_models = all(name.endswith(".model") for name in names)
    if folder.is_dir():
        files = [folder / name for name in names]
    elif only_models:
        files = [paths.path(name) for name in source.split(",")]
    else:
        raise UserError(f"{what} is not a folder: expected WORKDIR/vocabulary of another run")
    if len(files) != len(names):
        expected = "one, as the vocabulary is shared" if len(names) == 1 else "two: SOURCE,TARGET"
        raise UserError(f"{what} names {len(files)} file(s), expected {expected}")
    for file in files:
        if not file.is_file():
            hint = (
                ": expected the vocabulary of a run with the same config.vocabulary.kind and shared"
            )
            raise UserError(f"{what}: {file} does not exist{hint if folder.is_dir() else ''}")
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents, strict=True):
        if only_models:
            tokenizer.load(content, str(file))  # raises UserError with the path
    return contents


def load(
    contents: dict[str, bytes], *, source_end: bool = True, normalisation: str = ""
) -> tokenizer.Vocabulary | tokenizer.Pieces | characters.Characters:
    """Loads a vocabulary from its files, {path: content}; UserError if one is damaged.

    Pairs have shared.model, or source.model and target.model. With tables of pieces there are also
    shared.pieces, or source.pieces and target.pieces. Vocabularies of characters have .characters
    instead. Plain text has text.model or text.characters. Without `source_end`, which only tables
    and characters have, a source ends with padding, so that the encoder does not see its end.
    `normalisation` is applied to all texts.
    """
    files = {Path(path).name: path for path in contents}

    def side(name: str) -> tokenizer.SideVocabulary:
        return dataclasses.replace(load_side(name), normalisation=normalisation)

    def load_side(name: str) -> tokenizer.SideVocabulary:
        # source.model if the side has its own, else shared.model.
        path_with = lambda suffix: files.get(f"{name}.{suffix}", files.get(f"shared.{suffix}"))
        if path := path_with("characters"):
            return characters.load(contents[path], path)
        model, table = path_with("model"), path_with("pieces")
        if table is None:
            return tokenizer.load(contents[model], model)
        processor = tokenizer.load_processor(contents[model], model)
        return PieceTable(processor, piece_table.loads(contents[table], table))

    if "text.model" in files or "text.characters" in files:
        return side("text")
    # One object for both sides if they are shared: Vocabulary.shared compares identity.
    source = side("source")
    one_file = "shared.model" in files or "shared.characters" in files
    target = source if one_file else side("target")
    if not source_end:
        source = dataclasses.replace(source, end=tokenizer.PAD)
    return tokenizer.Vocabulary(source, target)


def learn_models(
    train: corpora.Corpus,
    *,
    shared: bool,
    kind: str,
    size: int,
    character_coverage: float,
    normalisation: str,
    max_sentences: int,
    seed: int,
) -> list[bytes]:
    """Learns one SentencePiece model from both sides of the training pairs, or one from each.

    A larger corpus is sampled: `max_sentences` random sentences (0: all), chosen by `seed`.
    """
    sides_of_models = [(0, 1)] if shared else [(0,), (1,)]
    options = {"kind": kind, "size": size, "character_coverage": character_coverage}
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    with progress.waiting("learn the vocabulary"):
        return [
            tokenizer.learn(_sentences(train, sides, max_sentences, seed, normalisation), **options)
            for sides in sides_of_models
        ]


def learn_text(
    train: corpora.Text,
    *,
    kind: str,
    size: int,
    character_coverage: float,
    normalisation: str,
    max_sentences: int,
    seed: int,
) -> bytes:
    """Learns a SentencePiece model from plain text, or with kind 'characters' their table."""
    if kind == "characters":
        return characters.learn(_sentences(train, (0,), 0, seed, normalisation))
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    lines = _sentences(train, (0,), max_sentences, seed, normalisation)
    with progress.waiting("learn the vocabulary"):
        return tokenizer.learn(lines, size=size, kind=kind, character_coverage=character_coverage)


def _sentences(
    corpus: corpora.Corpus | corpora.Text,
    sides: Sequence[int],
    max_sentences: int,
    seed: int,
    normalisation: str,
    chunk: int = 8192,
) -> Iterator[str]:
    """Yields the sentences of `sides`: all, or about `max_sentences`, of random items."""
    chosen = np.arange(len(corpus))
    if max_sentences and len(sides) * len(corpus) > max_sentences:
        shuffled = np.random.default_rng(seed).permutation(len(corpus))
        # Sorted, so that the corpus is read from its beginning to its end.
        chosen = np.sort(shuffled[: max_sentences // len(sides)])
    total = len(chosen) * len(sides)
    with progress.counter("read for the vocabulary", total=total, unit="sentence") as advance:
        for start in range(0, len(chosen), chunk):
            texts = corpus.read(chosen[start : start + chunk])
            for side in sides:
                yield from tokenizer.normalised(texts[side], normalisation)
                advance(len(texts[side]))
