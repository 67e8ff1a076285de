"""The vocabulary of a run, by the contents of its files: learnt from text, or loaded."""

import dataclasses
import functools
import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from transformer.data import characters, corpora, piece_table, tokenizer
from transformer.data.piece_table import PieceTable
from transformer.errors import UserError
from transformer.runtime import progress

Vocabulary = tokenizer.Vocabulary | tokenizer.Pieces | characters.Characters

# The sides of a corpus that a file is learnt from, by the stem of its name.
SIDES = {"shared": (0, 1), "source": (0,), "target": (1,), "text": (0,)}


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
    one each, text.model and text.characters from plain text. A larger corpus is sampled:
    `max_sentences` random sentences (0: all), chosen by `seed`; characters are those of all.
    """
    if kind == "characters":
        max_sentences, learn_side = 0, characters.learn
    else:
        logging.info("learning the vocabulary: %s, %d pieces", kind, size)
        options = {"kind": kind, "size": size, "character_coverage": character_coverage}
        learn_side = functools.partial(learn_pieces, **options)
    with progress.waiting("learn the vocabulary"):
        contents = {}
        for name in names:
            sides = SIDES[Path(name).stem]
            sentences = _sentences(train, sides, max_sentences, seed, normalisation)
            contents[name] = learn_side(sentences)
        return contents


def _sentences(
    corpus: corpora.Corpus, sides: Sequence[int], max_sentences: int, seed: int, normalisation: str
) -> Iterator[str]:
    """Yields the sentences of `sides`: all, or about `max_sentences`, of random items."""
    chosen = np.arange(len(corpus))
    if max_sentences and len(sides) * len(corpus) > max_sentences:
        shuffled = np.random.default_rng(seed).permutation(len(corpus))
        # Sorted, so that the corpus is read from its beginning to its end.
        chosen = np.sort(shuffled[: max_sentences // len(sides)])
    total = len(chosen) * len(sides)
    with progress.counter("read for the vocabulary", total=total, unit="sentence") as advance:
        for start in range(0, len(chosen), corpora.CHUNK):
            texts = corpus.read(chosen[start : start + corpora.CHUNK])
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


def load(contents: dict[str, bytes], *, normalisation: str = "") -> Vocabulary:
    """Loads a vocabulary from its files, {path: content}; UserError if one is damaged.

    Pairs have shared.model, or source.model and target.model. With tables of pieces there are also
    shared.pieces, or source.pieces and target.pieces. Plain text has text.model or text.characters.
    `normalisation` is applied to all texts.
    """
    files = {Path(path).name: path for path in contents}

    def side(name: str) -> tokenizer.Pieces:
        return dataclasses.replace(load_side(name), normalisation=normalisation)

    def load_side(name: str) -> tokenizer.Pieces:
        if path := files.get(f"{name}.characters"):
            return characters.load(contents[path], path)
        # source.model if the side has its own, else shared.model.
        path_with = lambda suffix: files.get(f"{name}.{suffix}", files.get(f"shared.{suffix}"))
        model, table = path_with("model"), path_with("pieces")
        if table is None:
            return tokenizer.load(contents[model], model)
        processor = tokenizer.load_processor(contents[model], model)
        return PieceTable(processor, piece_table.loads(contents[table], table))

    if "text.model" in files or "text.characters" in files:
        return side("text")
    # One object for both sides if they are shared: Vocabulary.shared compares identity.
    source = side("source")
    target = source if "shared.model" in files else side("target")
    return tokenizer.Vocabulary(source, target)
