"""Text <-> ids: SentencePiece vocabularies.

The ids 0 to 3 mean the same in every vocabulary; 0 is padding, so that a zeroed array is an empty
one.
"""

import functools
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

from transformer.errors import UserError

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
        """Names what turns text into ids and back: equal fingerprints, equal ids."""
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
        raise UserError(f"config.vocabulary.kind is one of {', '.join(KINDS)}, found {kind!r}")
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
            raise UserError(
                f"config.vocabulary.size={size} is more than the training text supports, which is "
                f"{largest[1]}"
            ) from error
        if needed := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
            raise UserError(
                f"config.vocabulary.size={size} is too small: the characters alone take "
                f"{needed[1]}; lower config.vocabulary.character_coverage or raise the size"
            ) from error
        if "sentences_.empty()" in message or "(all_chars_count) > (0)" in message:
            raise UserError(
                "the training text is blank (or every line is over 65,536 bytes): there is nothing "
                "to learn a vocabulary from"
            ) from error
        raise UserError(f"config.vocabulary: SentencePiece says: {message!r}") from error
    return model.getvalue()


def load(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary from a .model file's bytes; other ids for the special pieces are refused."""
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        fingerprint(pieces)  # a damaged model may have pieces that are no text
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{name} is not a SentencePiece model") from error
    found = (pieces.pad_id(), pieces.eos_id(), pieces.unk_id(), pieces.bos_id())
    if found != (PAD, END, UNKNOWN, START):
        raise UserError(
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


# What decides on ids and text besides the pieces, as (message, field): default, with the numbers of
# sentencepiece_model.proto.
SETTINGS = {
    (2, 3): 1,  # trainer_spec.model_type: unigram
    (2, 24): 0,  # trainer_spec.treat_whitespace_as_suffix
    (2, 35): 0,  # trainer_spec.byte_fallback
    (2, 44): " \u2047 ".encode(),  # trainer_spec.unk_surface
    (3, 2): b"",  # normalizer_spec.precompiled_charsmap, which its name and rules are made into
    (3, 3): 1,  # normalizer_spec.add_dummy_prefix
    (3, 4): 1,  # normalizer_spec.remove_extra_whitespaces
    (3, 5): 1,  # normalizer_spec.escape_whitespaces
    (5, 2): b"",  # denormalizer_spec.precompiled_charsmap
}
SIZES = {1: 8, 2: 0, 5: 4}  # of values by wire type; 0: it comes first
LEARNT = {**SETTINGS, (2, 3): 2, (2, 35): 1}  # by default: BPE with byte fallback


@functools.cache
def fingerprint(pieces: sentencepiece.SentencePieceProcessor) -> str:
    """Returns a hash of whatever decides on ids and text: pieces, scores, types and SETTINGS.

    Not of the model file, which differs between machines: it embeds the paths it was trained with.
    A vocabulary as `learn` makes it by default is named by its table alone.
    """
    settings, types = _settings(pieces)
    scores = [pieces.get_score(i) for i in range(len(pieces))]
    digest = hashlib.sha256(table(pieces).encode())
    special = [3, 3, 2, 3, *[6] * 256]  # control, unknown, bytes; 1: any other piece
    as_usual = types == special + [1] * (len(pieces) - len(special)) and settings == LEARNT
    if not as_usual or scores != [float(f"{score:g}") for score in scores]:
        digest.update(repr((settings, scores, types)).encode())
    return digest.hexdigest()[:16]


def _settings(
    pieces: sentencepiece.SentencePieceProcessor,
) -> tuple[dict[tuple[int, int], int | bytes], list[int]]:
    """Returns a model's SETTINGS, and the type of each piece."""
    settings, types = dict(SETTINGS), []
    for message, content in _fields(pieces.serialized_model_proto()):
        if message == 1:
            types.append(dict(_fields(content)).get(3, 1))
        elif message in (2, 3, 5):
            found = {(message, field): value for field, value in _fields(content)}
            settings |= {key: value for key, value in found.items() if key in SETTINGS}
    return settings, types


def _fields(message: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) of each field of a protobuf message (protobuf.dev, "Encoding").

    By hand, because sentencepiece's own sentencepiece_model_pb2 refuses any protobuf library older
    than the one it was made with, and does not require that one.
    """
    at = 0

    def varint() -> int:
        nonlocal at
        value, shift = message[at] & 0x7F, 7
        # Seven bits a byte, the lowest first; the last has no eighth bit.
        while message[at] >= 0x80:
            at += 1
            value |= (message[at] & 0x7F) << shift
            shift += 7
        at += 1
        return value

    if not isinstance(message, bytes):
        raise ValueError("a number, expected a message")
    while at < len(message):
        number, wire_type = divmod(varint(), 8)
        if wire_type == 0:
            yield number, varint()
            continue
        if wire_type not in SIZES:
            raise ValueError(f"a group, field {number}: SentencePiece has none")
        size = SIZES[wire_type] or varint()
        yield number, message[at : at + size]
        at += size
