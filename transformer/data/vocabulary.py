"""A config -> its vocabulary in the workdir: given, learnt, or there already."""

import importlib.metadata
import logging
from collections.abc import Iterator
from pathlib import Path

import ml_collections
import numpy as np

from transformer.checkpoints.workdir import read_config, read_vocabulary
from transformer.data import corpora, tokenizer
from transformer.errors import UserError
from transformer.storage import checksums, paths


def write(
    config: ml_collections.ConfigDict, train: corpora.Corpus, workdir: Path
) -> tokenizer.Vocabulary:
    """Returns the vocabulary a config asks for, given or learnt, also as files in the workdir.

    One that --mode=prepare has learnt there from the same text by the same settings is not learnt
    again.
    """
    if vocabulary := _learnt_before(config, workdir):
        return vocabulary
    options = config.vocabulary
    names = ("shared",) if options.shared else ("source", "target")
    if options.model:
        given = _given_models(options)
        learnt = [path.read_bytes() for path in given]
    else:
        logging.info("learning the vocabulary: %s, %d pieces", options.kind, options.size)
        sides = (("source", "target"),) if options.shared else (("source",), ("target",))
        given = [Path(name) for name in names]
        learnt = [
            tokenizer.learn(
                _sentences(train, side, options.max_sentences, config.train.seed),
                size=options.size,
                kind=options.kind,
                character_coverage=options.character_coverage,
            )
            for side in sides
        ]
    pieces = [tokenizer.load(model, str(path)) for path, model in zip(given, learnt, strict=True)]
    for name, model, table in zip(names, learnt, map(tokenizer.table, pieces), strict=True):
        paths.write_file(workdir / "vocabulary" / f"{name}.model", model)
        paths.write_file(workdir / "vocabulary" / f"{name}.vocab", table.encode())
    seal = checksums.seal(workdir / "vocabulary")
    paths.write_file(workdir / "vocabulary" / checksums.NAME, seal)
    return tokenizer.Vocabulary(pieces[0], pieces[-1])


def _learnt_before(config: ml_collections.ConfigDict, workdir: Path) -> tokenizer.Vocabulary | None:
    """Returns the workdir's vocabulary if the config would make it learn the same one again."""

    def settings(config: ml_collections.ConfigDict, learner: str) -> tuple:
        options = {**config.vocabulary, "fingerprint": ""}
        return options, config.data.fingerprint, config.train.seed, learner

    try:
        made = read_config(workdir)
        vocabulary = read_vocabulary(workdir, made)
        learner = made.versions.sentencepiece
    except (UserError, AttributeError):  # nothing is there, or not in one piece: learnt again
        return None
    asked = settings(config, importlib.metadata.version("sentencepiece"))
    if config.vocabulary.model or settings(made, learner) != asked:
        return None
    logging.info("the vocabulary is there already: same text, same settings")
    return vocabulary


def _given_models(options: ml_collections.ConfigDict) -> list[Path]:
    files = [paths.path(name) for name in options.model.split(",")]
    expected = 1 if options.shared else 2
    if len(files) != expected:
        raise UserError(
            f"config.vocabulary.model names {len(files)} file(s), expected "
            + ("one, as the vocabulary is shared" if options.shared else "two: SOURCE,TARGET")
        )
    for path in files:
        if not path.is_file():
            kind = "is a folder, expected a file" if path.is_dir() else "does not exist"
            raise UserError(f"config.vocabulary.model: {path} {kind}")
    return files


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
