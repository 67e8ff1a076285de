"""Text <-> ids: SentencePiece vocabularies, of pairs (`Vocabulary`) or of plain text (`Pieces`).

The special ids 0 to 3 are the same in every vocabulary. Padding is 0, so that an array of zeros is
empty.
"""

import dataclasses
import functools
import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from transformer.errors import UserError

PAD, END, UNKNOWN, START, FIRST_PIECE = range(5)  # ids below FIRST_PIECE are special
TAG = r"▁<[^<>\s]+>"  # a source's first piece, for a language or a domain, such as <2de>


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The vocabulary of one side: a SentencePiece model and its ids.

    The vocabularies of registry.VOCABULARIES have the same methods and fields.
    """

    processor: sentencepiece.SentencePieceProcessor
    normalisation: str = ""  # of texts before tokenisation: 'nfc' or ''
    pad, end, unknown, start = PAD, END, UNKNOWN, START

    def __len__(self) -> int:
        return len(self.processor)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenises texts; each ends with END, and a blank text is END alone."""
        return self.processor.encode(normalised(texts, self.normalisation), add_eos=True)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Detokenises lists of ids; special ids are dropped."""
        return self.processor.decode([[int(i) for i in text] for text in ids])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces of ids, with ▁ for a space."""
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def surfaces(self, text: str) -> list[tuple[str, str]]:
        """Returns each (piece, part of the text) of a text."""
        [text] = normalised([text], self.normalisation)
        pieces = self.processor.encode(text, return_type="proto").pieces
        return [(piece.piece, piece.surface) for piece in pieces]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.processor) + self.normalisation

    @property
    def sides(self) -> dict[str, "Pieces"]:
        """Returns {'text': this vocabulary}, the only side of plain text (see tokens.py)."""
        return {"text": self}


class Vocabulary(NamedTuple):
    """The vocabularies of source and target, one object if they are shared."""

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
        """A hash of everything that determines ids and text; equal for equal vocabularies."""
        if self.shared:
            return self.source.fingerprint
        return f"{self.source.fingerprint}-{self.target.fingerprint}"


def check_list(texts: Iterable[str]) -> None:
    """Raises TypeError for a string, because each of its letters would be a text."""
    if isinstance(texts, str):
        raise TypeError(f"expected a list of texts, found one text: give [{texts[:40]!r}]")


def tagged(tag: str, text: str) -> str:
    """Returns a source with its tag, if any; a blank source stays as it is."""
    return f"{tag} {text}" if tag and text.strip() else text


def tags(vocabulary: Pieces) -> list[str]:
    """Returns the tags that are pieces of a vocabulary."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    return [piece[1:] for piece in pieces if re.fullmatch(TAG, piece)]


def normalised(texts: Iterable[str], form: str) -> list[str]:
    """Returns texts in a Unicode normalisation form, such as 'nfc'; '' leaves them as is.

    Without normalisation equal texts may have different ids. macOS spells 한 as the three
    characters ᄒ, ᅡ and ᆫ (NFD), but a vocabulary of composed text (NFC) has no pieces for them.
    """
    check_list(texts)
    return [unicodedata.normalize(form.upper(), text) for text in texts] if form else list(texts)


def load(model_bytes: bytes, name: str) -> Pieces:
    """Loads the bytes of a .model file; `name` is for error messages.

    UserError if it is not a SentencePiece model, or its special pieces have other ids.
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
    sentences: Iterable[str], *, size: int, kind: str, character_coverage: float, tags: tuple = ()
) -> bytes:
    """Learns `size` pieces from sentences; returns a .model file's bytes, deterministically.

    Each tag is a piece that is never split.

    SentencePiece normalises only runs of spaces, because its default rewrites characters, and the
    model could not produce some references. A character outside the vocabulary falls back to its
    UTF-8 bytes. UserError if the text does not support this size.
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
            user_defined_symbols=[f"▁{tag}" for tag in tags],  # with the space before it
            minloglevel=2,
        )
    except RuntimeError as error:
        # "FILE(LINE) [CONDITION] Vocabulary size too high (500). Please set it to a value <= 284."
        if not (reason := str(error).rpartition("] ")[2]):
            raise UserError(
                "the training text is blank (or every line is over 65,536 bytes): there is nothing "
                "to learn a vocabulary from"
            ) from error
        raise UserError(f"config.vocabulary.size={size}: {reason}") from error
    return model.getvalue()


def load_processor(model_bytes: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """Loads the bytes of a .model file, with any special ids; UserError for other bytes."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model_bytes)
        # Fails for a corrupt model, whose pieces are not UTF-8.
        processor.id_to_piece(list(range(len(processor))))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{name} is not a SentencePiece model: {error}") from error
    return processor


def padded(lists: Sequence[Sequence[int]], rows: int, length: int) -> np.ndarray:
    """Returns lists of ids as the first rows of an int32 array [rows, length], PAD elsewhere."""
    array = np.full((rows, length), PAD, np.int32)
    # Not strict, because rows beyond the lists stay empty.
    for row, ids in zip(array, lists, strict=False):
        row[: len(ids)] = ids
    return array


@functools.cache
def fingerprint(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns a hash of a model: its pieces, and all settings that ids and text depend on.

    The file itself is not hashed, because it may embed paths.
    """
    model = proto(processor)
    for name in ("input", "model_prefix"):
        model.trainer_spec.ClearField(name)
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:16]


def proto(processor: sentencepiece.SentencePieceProcessor) -> ModelProto:
    """Returns the content of a model's file."""
    return ModelProto.FromString(processor.serialized_model_proto())
