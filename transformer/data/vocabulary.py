"""The SentencePiece models of a run: read from files, or learnt from its training pairs."""

import logging
from collections.abc import Iterator

import numpy as np

from transformer.data import corpora, tokenizer
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
    """Learns one model from both sides of the training pairs, or one from each side.

    Of a larger corpus `max_sentences` random sentences are used (0: all); `seed` chooses them.
    """
    sides_of_models = [("source", "target")] if shared else [("source",), ("target",)]
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    return [
        tokenizer.learn(
            _sentences(train, sides, max_sentences, seed),
            size=size,
            kind=kind,
            character_coverage=character_coverage,
        )
        for sides in sides_of_models
    ]


def _sentences(
    pairs: corpora.Corpus, sides: tuple[str, ...], most: int, seed: int, chunk: int = 8192
) -> Iterator[str]:
    """Yields the sentences of these sides: all, or of `most` // len(sides) random pairs."""
    chosen = np.arange(len(pairs))
    if most and len(sides) * len(pairs) > most:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(pairs))[: most // len(sides)])
    for start in range(0, len(chosen), chunk):
        source, target = pairs.read(chosen[start : start + chunk])
        if "source" in sides:
            yield from source
        if "target" in sides:
            yield from target
