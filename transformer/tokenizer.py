"""Text <-> ids: SentencePiece vocabularies.

The ids 0 to 3 mean the same in every vocabulary; 0 is padding, so that a zeroed array is an empty
one.
"""

import functools
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

PAD, END, UNKNOWN, START = 0, 1, 2, 3
KINDS = ("bpe", "unigram")


class Vocabulary(NamedTuple):
    """The source's and the target's SentencePiece model: one object where they share it."""

    source: sentencepiece.SentencePieceProcessor
    target: sentencepiece.SentencePieceProcessor

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Names the pieces; ids mean the same under equal fingerprints only."""
        if self.shared:
            return fingerprint(self.source)
        return f"{fingerprint(self.source)}-{fingerprint(self.target)}"


def learn(
    sentences: Iterable[str],
    *,
    size: int,
    kind: str,
    character_coverage: float,
) -> bytes:
    """Learns `size` pieces from `sentences` and returns the model: the same for the same sentences.

    The text is taken as it is ('identity' normalisation, but for runs of spaces): SentencePiece's
    default rewrites characters, so that some references could not be produced. A character outside
    the vocabulary falls back to its bytes.
    """
    if kind not in KINDS:
        raise ValueError(f"config.vocabulary.kind is one of {', '.join(KINDS)}, found {kind!r}")
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
            max_sentence_length=1 << 16,  # bytes; a longer sentence teaches no pieces
            num_threads=16,  # a constant, because unigram's pieces depend on it
            pad_id=PAD,
            eos_id=END,
            unk_id=UNKNOWN,
            bos_id=START,
            minloglevel=2,
        )
    except RuntimeError as error:
        message = str(error)
        if largest := re.search(r"too high.* <= (\d+)", message):
            raise ValueError(
                f"config.vocabulary.size={size} is more than the training text supports, which is "
                f"{largest[1]}"
            ) from error
        if needed := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
            raise ValueError(
                f"config.vocabulary.size={size} is too small: the characters alone take "
                f"{needed[1]}; lower config.vocabulary.character_coverage or raise the size"
            ) from error
        raise ValueError(f"config.vocabulary: SentencePiece says: {message!r}") from error
    return model.getvalue()


def load(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary from a .model file's bytes; other ids for the special pieces are refused."""
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        table(pieces)  # a damaged model may have pieces that are no text
    except (RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not a SentencePiece model") from error
    found = (pieces.pad_id(), pieces.eos_id(), pieces.unk_id(), pieces.bos_id())
    if found != (PAD, END, UNKNOWN, START):
        raise ValueError(
            f"{name}: padding, end, unknown and start have the ids {found}, not {(0, 1, 2, 3)}; "
            "train it with --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=3"
        )
    return pieces


def encode(
    pieces: sentencepiece.SentencePieceProcessor, sentences: Sequence[str]
) -> list[list[int]]:
    """Ids of each sentence, the end symbol included; a blank sentence is the end symbol alone."""
    return pieces.encode(list(sentences), add_eos=True)


def decode(pieces: sentencepiece.SentencePieceProcessor, ids: Sequence[Sequence[int]]) -> list[str]:
    """Text of each list of ids; the special ones say nothing."""
    return pieces.decode([[int(i) for i in sentence] for sentence in ids])


def padded(lists: Sequence[Sequence[int]], rows: int, length: int) -> np.ndarray:
    """Lists of ids as the first rows of an array of static shape, PAD elsewhere."""
    array = np.full((rows, length), PAD, np.int32)
    for row, ids in zip(array, lists, strict=False):
        row[: len(ids)] = ids
    return array


def table(pieces: sentencepiece.SentencePieceProcessor) -> str:
    """The .vocab file, for people: a line a piece, with its score."""
    return "".join(
        f"{pieces.id_to_piece(i)}\t{pieces.get_score(i):g}\n" for i in range(len(pieces))
    )


@functools.cache
def fingerprint(pieces: sentencepiece.SentencePieceProcessor) -> str:
    """A hash of the pieces and their scores in order.

    Not of the model file, which differs between machines: it embeds the paths it was trained with.
    """
    return hashlib.sha256(table(pieces).encode()).hexdigest()[:16]
