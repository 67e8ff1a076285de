"""The SentencePiece models of a run: given as files, or learnt from its training pairs."""

import logging
from collections.abc import Iterator

import numpy as np

from transformer.data import corpora, tokenizer
from transformer.errors import UserError
from transformer.storage import paths


def given(files: str, *, shared: bool) -> list[bytes]:
    """The models of `config.vocabulary.model`: one file if both sides share it, else
    'SOURCE,TARGET'."""
    places = [paths.path(name) for name in files.split(",")]
    expected = 1 if shared else 2
    if len(places) != expected:
        raise UserError(
            f"config.vocabulary.model names {len(places)} file(s), expected "
            + ("one, as the vocabulary is shared" if shared else "two: SOURCE,TARGET")
        )
    for path in places:
        if not path.is_file():
            kind = "is a folder, expected a file" if path.is_dir() else "does not exist"
            raise UserError(f"config.vocabulary.model: {path} {kind}")
    models = [path.read_bytes() for path in places]
    for model, path in zip(models, places, strict=True):
        tokenizer.load(model, str(path))  # refuses what is no model, by its name
    return models


def learnt(
    train: corpora.Corpus,
    *,
    shared: bool,
    kind: str,
    size: int,
    character_coverage: float,
    max_sentences: int,
    seed: int,
) -> list[bytes]:
    """Models learnt from the training pairs: one of both sides, or one of each."""
    logging.info("learning the vocabulary: %s, %d pieces", kind, size)
    return [
        tokenizer.learn(
            _sentences(train, sides, max_sentences, seed),
            size=size,
            kind=kind,
            character_coverage=character_coverage,
        )
        for sides in ((("source", "target"),) if shared else (("source",), ("target",)))
    ]


def _sentences(
    pairs: corpora.Corpus, sides: tuple[str, ...], most: int, seed: int, chunk: int = 8192
) -> Iterator[str]:
    """The sentences to learn pieces from: all, or those of a random `most` // len(sides) pairs."""
    chosen = np.arange(len(pairs))
    if most and len(sides) * len(pairs) > most:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(pairs))[: most // len(sides)])
    for start in range(0, len(chosen), chunk):
        source, target = pairs.read(chosen[start : start + chunk])
        if "source" in sides:
            yield from source
        if "target" in sides:
            yield from target
