"""The vocabulary of a run, by the contents of its files: learnt from text, or loaded.

The core has SentencePiece's; `registry.VOCABULARIES` names the kinds of families and tools.
"""

import dataclasses
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece

from transformer import registry
from transformer.data import corpora, tokenizer
from transformer.errors import UserError, check_value
from transformer.runtime import progress

Vocabulary = tokenizer.Vocabulary | tokenizer.Pieces

# The sides of a corpus that a file is learnt from, by the stem of its name.
SIDES = {"shared": (0, 1), "source": (0,), "target": (1,), "text": (0,)}


class Kind(NamedTuple):
    """A value of `config.vocabulary.kind`: how a vocabulary is learnt, stored and loaded."""

    # (stems of SIDES that have a vocabulary of their own) -> the names of all files
    names: Callable[[Sequence[str]], list[str]]
    # (file) -> the vocabulary of a side; file('model') is (content, path) of its file *.model
    load: Callable[[Callable[[str], tuple[bytes, str]]], tokenizer.Pieces]
    # (sentences, *, kind, size, character_coverage) -> a file's content; None if it is not learnt
    learn: Callable[..., bytes] | None
    samples: bool = False  # whether a sample of the sentences is enough to learn from


def kind_named(name: str) -> Kind:
    """Returns a kind by its name; UserError if there is none."""
    check_value("vocabulary.kind", name, (*tokenizer.KINDS, *registry.VOCABULARIES))
    if name in registry.VOCABULARIES:
        return registry.load(registry.VOCABULARIES[name])
    return Kind(
        names=lambda stems: [f"{stem}.model" for stem in stems],
        load=lambda file: tokenizer.load(*file("model")),
        learn=learn_pieces,
        samples=True,
    )


def learn(
    train: corpora.Corpus,
    names: Sequence[str],
    *,
    kind: str,
    size: int,
    character_coverage: float,
    normalisation: str,
    max_sentences: int,
    seed: int,
) -> dict[str, bytes]:
    """Learns the files `names` of a vocabulary, and returns {name: content}.

    shared.model is learnt from both sides of the training pairs, source.model and target.model from
    one each, text.model from plain text. If a sample is enough, a larger corpus is sampled:
    `max_sentences` random sentences (0: all), chosen by `seed`.
    """
    logging.info("learning the vocabulary: %s", kind)
    chosen, contents = kind_named(kind), {}
    most = max_sentences if chosen.samples else 0
    options = {"kind": kind, "size": size, "character_coverage": character_coverage}
    with progress.waiting("learn the vocabulary"):
        for name in names:
            sentences = _sentences(train, SIDES[Path(name).stem], most, seed, normalisation)
            contents[name] = chosen.learn(sentences, **options)
    return contents


def _sentences(
    corpus: corpora.Corpus, sides: Sequence[int], max_sentences: int, seed: int, normalisation: str
) -> Iterator[str]:
    """Yields the sentences of `sides`: all, or about `max_sentences`, of random items."""
    chosen = np.arange(len(corpus))
    if max_sentences and len(sides) * len(corpus) > max_sentences:
        shuffled = np.random.default_rng(seed).permutation(len(corpus))
        # Sorted, because the corpus is read from its beginning to its end.
        chosen = np.sort(shuffled[: max_sentences // len(sides)])
    total = len(chosen) * len(sides)
    with progress.counter("read for the vocabulary", total=total, unit="sentence") as advance:
        for texts in corpus.chunks(chosen):
            for side in sides:
                yield from tokenizer.normalised(texts[side], normalisation)
                advance(len(texts[side]))


def learn_pieces(
    sentences: Iterable[str], *, size: int, kind: str, character_coverage: float
) -> bytes:
    """Learns `size` pieces from sentences; returns a .model file's bytes, deterministically.

    SentencePiece normalises nothing but runs of spaces: its default rewrites characters, so that
    some references could not be produced. A character outside the vocabulary falls back to
    its UTF-8 bytes. UserError if the text does not support this size.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=size,
            model_type=kind,
            character_coverage=character_coverage,
            byte_fallback=True,
            normalization_rule_name="identity",
            max_sentence_length=1 << 16,  # bytes; longer sentences are ignored
            num_threads=16,  # a constant, because the pieces of 'unigram' depend on it
            pad_id=tokenizer.PAD,
            eos_id=tokenizer.END,
            unk_id=tokenizer.UNKNOWN,
            bos_id=tokenizer.START,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(_explain(str(error), size)) from error
    return model.getvalue()


def _explain(message: str, size: int) -> str:
    """Turns an error of SentencePiece's trainer into a message that says what the user can do."""
    if largest := re.search(r"too high.* <= (\d+)", message):
        return (
            f"config.vocabulary.size={size} is more than the training text supports: set it to "
            f"{largest[1]} or less"
        )
    if needed := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"config.vocabulary.size={size} is too small: the 256 bytes, the special symbols and "
            f"the characters alone take {needed[1]}; lower config.vocabulary.character_coverage or "
            "raise the size"
        )
    if "sentences_.empty()" in message or "(all_chars_count) > (0)" in message:
        return (
            "the training text is blank (or every line is over 65,536 bytes): there is nothing "
            "to learn a vocabulary from"
        )
    return f"config.vocabulary: SentencePiece fails with {message!r}"


def load(contents: dict[str, bytes], kind: str, *, normalisation: str = "") -> Vocabulary:
    """Loads a vocabulary from its files, {path: content}; UserError if one is damaged.

    Pairs have shared.model, or source.model and target.model; plain text has text.model. Kinds
    other than SentencePiece's have other suffixes. `normalisation` is applied to all texts.
    """
    paths = {Path(path).name: path for path in contents}

    def side(name: str) -> tokenizer.Pieces:
        def file(suffix: str) -> tuple[bytes, str]:
            # source.model if the side has its own, else shared.model.
            path = paths.get(f"{name}.{suffix}") or paths[f"shared.{suffix}"]
            return contents[path], path

        return dataclasses.replace(kind_named(kind).load(file), normalisation=normalisation)

    if any(name.startswith("text.") for name in paths):
        return side("text")
    # One object for both sides if they are shared: Vocabulary.shared compares identity.
    source = side("source")
    target = source if "shared.model" in paths else side("target")
    return tokenizer.Vocabulary(source, target)
