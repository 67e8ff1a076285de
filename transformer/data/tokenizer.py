"""Text <-> ids: SentencePiece vocabularies, of pairs (`Vocabulary`) or of plain text (`Pieces`).

The special ids 0 to 3 are the same in every vocabulary. Padding is 0, so that a zeroed array is an
empty one.
"""

import dataclasses
import functools
import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from transformer.errors import UserError

PAD, END, UNKNOWN, START = 0, 1, 2, 3
KINDS = ("bpe", "unigram")
NORMALISATIONS = ("nfc", "")


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The vocabulary of one side: a SentencePiece model, whose ids are the model's.

    The vocabularies of registry.VOCABULARIES have the same methods and fields, and may stand where
    these are asked for.
    """

    processor: sentencepiece.SentencePieceProcessor
    normalisation: str = ""  # of texts before they are tokenised: one of NORMALISATIONS
    pad, end, unknown, start = PAD, END, UNKNOWN, START

    def __len__(self) -> int:
        return len(self.processor)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenises texts; each ends with END, and a blank one is END alone."""
        return self.processor.encode(normalised(texts, self.normalisation), add_eos=True)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Detokenises lists of ids; special ids are dropped."""
        return self.processor.decode([[int(i) for i in text] for text in ids])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces of ids, in which ▁ stands for a space."""
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def surfaces(self, text: str) -> list[tuple[str, str]]:
        """Returns the (piece, part of the text) that a text is cut into."""
        return surfaces(self.processor, *normalised([text], self.normalisation))

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.processor) + self.normalisation

    @property
    def sides(self) -> dict[str, "Pieces"]:
        """Returns the only side of plain text, which has this vocabulary (see tokens.py)."""
        return {"text": self}


class Vocabulary(NamedTuple):
    """The vocabularies of the source and the target: one object if they are shared."""

    source: Pieces
    target: Pieces

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def sides(self) -> dict[str, Pieces]:
        return {"source": self.source, "target": self.target}

    @property
    def fingerprint(self) -> str:
        """A hash of all that determines ids and text: equal fingerprints, equal ids."""
        if self.shared:
            return self.source.fingerprint
        return f"{self.source.fingerprint}-{self.target.fingerprint}"


def check_list(texts: Iterable[str]) -> None:
    """Raises TypeError for a string: iterating over it would take each letter for a text."""
    if isinstance(texts, str):
        raise TypeError(f"expected a list of texts, found one text: give [{texts[:40]!r}]")


def normalised(texts: Iterable[str], form: str) -> list[str]:
    """Returns texts in a Unicode normalisation form, one of NORMALISATIONS; '' leaves them as is.

    Without normalisation equal texts may have different ids: macOS spells 한 as the three
    characters ᄒ, ᅡ and ᆫ (NFD), which a vocabulary of composed text (NFC) has no pieces for.
    """
    check_list(texts)
    return [unicodedata.normalize(form.upper(), text) for text in texts] if form else list(texts)


def load(model_bytes: bytes, name: str) -> Pieces:
    """Loads a .model file's bytes; `name` is for error messages.

    UserError if they are not a SentencePiece model, or its special pieces have other ids.
    """
    processor = load_processor(model_bytes, name)
    ids = (processor.pad_id(), processor.eos_id(), processor.unk_id(), processor.bos_id())
    if ids != (PAD, END, UNKNOWN, START):
        raise UserError(
            f"{name}: padding, end, unknown and start have the ids {ids}, not {(0, 1, 2, 3)}; "
            "train it with --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=3"
        )
    return Pieces(processor)


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
            pad_id=PAD,
            eos_id=END,
            unk_id=UNKNOWN,
            bos_id=START,
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


def load_processor(model_bytes: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """Loads a .model file's bytes, with any special ids; UserError if they are not a model."""
    if not model_bytes:  # of which SentencePiece makes a processor without a model
        raise UserError(f"{name} is empty, expected a SentencePiece model")
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
        fingerprint(processor)  # fails if a corrupt model has pieces that are not UTF-8
    except (RuntimeError, ValueError, DecodeError) as error:
        raise UserError(f"{name} is not a SentencePiece model") from error
    return processor


def surfaces(processor: sentencepiece.SentencePieceProcessor, text: str) -> list[tuple[str, str]]:
    """Returns the (piece, part of the text) that a SentencePiece model cuts a text into."""
    pieces = processor.encode(text, return_type="proto").pieces
    return [(piece.piece, piece.surface) for piece in pieces]


def padded(lists: Sequence[Sequence[int]], rows: int, length: int) -> np.ndarray:
    """Returns lists of ids as the first rows of an int32 array [rows, length], PAD elsewhere."""
    array = np.full((rows, length), PAD, np.int32)
    # Not strict: rows beyond the lists stay empty.
    for row, ids in zip(array, lists, strict=False):
        row[: len(ids)] = ids
    return array


def table(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns the text of a .vocab file, for people: a line per piece, with its score."""
    return "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in range(len(processor))
    )


# What determines ids and text besides the pieces: fields of sentencepiece_model.proto by their
# numbers, which fingerprints have always had.
SETTINGS = {
    (2, 3): "trainer_spec.model_type",
    (2, 24): "trainer_spec.treat_whitespace_as_suffix",
    (2, 35): "trainer_spec.byte_fallback",
    (2, 44): "trainer_spec.unk_surface",
    (3, 2): "normalizer_spec.precompiled_charsmap",  # its name and rules, compiled
    (3, 3): "normalizer_spec.add_dummy_prefix",
    (3, 4): "normalizer_spec.remove_extra_whitespaces",
    (3, 5): "normalizer_spec.escape_whitespaces",
    (5, 2): "denormalizer_spec.precompiled_charsmap",
}


@functools.cache
def fingerprint(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns a hash of all that determines ids and text: pieces, scores, types and SETTINGS.

    The model file itself is not hashed: it embeds paths, which differ between machines.
    """
    model = proto(processor)
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(len(processor))]
    # As in the file, where a string is bytes and True is 1.
    encoded = lambda x: x.encode() if isinstance(x, str) else x if isinstance(x, bytes) else int(x)
    values = {number: encoded(attrgetter(name)(model)) for number, name in SETTINGS.items()}
    content = repr((pieces, values, [piece.type for piece in model.pieces]))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def proto(processor: sentencepiece.SentencePieceProcessor) -> ModelProto:
    """Returns the content of a model's file."""
    return ModelProto.FromString(processor.serialized_model_proto())
