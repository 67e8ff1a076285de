"""The vocabulary of a run: read from files, or learnt from its training text."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from transformer.data import characters, corpora, tokenizer
from transformer.errors import UserError
from transformer.storage import paths


def read_models(files: str, *, shared: bool) -> list[bytes]:
    """Reads the models of `config.vocabulary.model`: one file if shared, else 'SOURCE,TARGET'.

    UserError if a file is missing or no SentencePiece model with our special ids.
    """
    model_paths = [paths.path(name) for name in files.split(",")]
    expected = "one, as the vocabulary is shared" if shared else "two: SOURCE,TARGET"
    if len(model_paths) != (1 if shared else 2):
        raise UserError(
            f"config.vocabulary.model names {len(model_paths)} file(s), expected {expected}"
        )
    for path in model_paths:
        if not path.is_file():
            kind = "is a folder, expected a file" if path.is_dir() else "does not exist"
            raise UserError(f"config.vocabulary.model: {path} {kind}")
    models = [path.read_bytes() for path in model_paths]
    for model, path in zip(models, model_paths, strict=True):
        tokenizer.load(model, str(path))  # raises UserError with the path
    return models


def load(
    contents: dict[str, bytes],
) -> tokenizer.Vocabulary | tokenizer.Pieces | characters.Characters:
    """Loads a vocabulary from its files, {path: content}; UserError if one is damaged.

    Of pairs these are shared.model, or source.model and target.model; of plain text they are
    text.model or text.characters.
    """
    [(path, content), *_] = contents.items()
    if path.endswith("text.characters"):
        return characters.load(content, path)
    pieces = [tokenizer.load(content, path) for path, content in contents.items()]
    if path.endswith("text.model"):
        return tokenizer.Pieces(pieces[0])
    return tokenizer.Vocabulary(pieces[0], pieces[-1])


def learn_models(
    train: corpora.Corpus,
    *,
    shared: bool,
    kind: str,
    size: int,
    character_coverage: float,
    max_sentences: int,
    seed: int,
) -> list[bytes]:
    """Learns one SentencePiece model from both sides of the training pairs, or one from each.

    Of a larger corpus `max_sentences` random sentences are used (0: all); `seed` chooses them.
    """
    sides_of_models = [(0, 1)] if shared else [(0,), (1,)]
    options = {"kind": kind, "size": size, "character_coverage": character_coverage}
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    return [
        tokenizer.learn(_sentences(train, sides, max_sentences, seed), **options)
        for sides in sides_of_models
    ]


def learn_text(
    train: corpora.Text,
    *,
    kind: str,
    size: int,
    character_coverage: float,
    max_sentences: int,
    seed: int,
) -> bytes:
    """Learns a SentencePiece model, or with 'characters' the table of all, from plain text."""
    if kind == "characters":
        return characters.learn(_sentences(train, (0,), 0, seed))
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    lines = _sentences(train, (0,), max_sentences, seed)
    return tokenizer.learn(lines, size=size, kind=kind, character_coverage=character_coverage)


def _sentences(
    corpus: corpora.Corpus | corpora.Text,
    sides: Sequence[int],
    most: int,
    seed: int,
    chunk: int = 8192,
) -> Iterator[str]:
    """Yields the sentences of these sides: all, or of `most` // len(sides) random items."""
    chosen = np.arange(len(corpus))
    if most and len(sides) * len(corpus) > most:
        chosen = np.random.default_rng(seed).permutation(len(corpus))[: most // len(sides)]
        chosen = np.sort(chosen)
    for start in range(0, len(chosen), chunk):
        texts = corpus.read(chosen[start : start + chunk])
        for side in sides:
            yield from texts[side]
