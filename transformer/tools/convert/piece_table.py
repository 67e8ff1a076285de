"""Text <-> ids by a SentencePiece model that splits text, and a table that numbers the pieces.

Marian's models have source.spm and target.spm to split, and vocab.json for the ids of both.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence

import sentencepiece

from transformer.data import tokenizer
from transformer.data.tokenizer import END, FIRST_PIECE, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.tasks.vocabularies import Kind

LANGUAGE = re.compile(">>.+?<<")  # selects one of several target languages


@dataclasses.dataclass(frozen=True)
class PieceTable:
    """The vocabulary of one side: table[i] is the piece with id i.

    The special ids are those of tokenizer.py. A piece that the table lacks is UNKNOWN. A text may
    start with a language in the table, as in '>>fra<< A cat.'.
    """

    processor: sentencepiece.SentencePieceProcessor
    table: tuple[str, ...]
    normalisation: str = ""  # of texts before tokenisation
    pad, end, unknown, start = PAD, END, UNKNOWN, START

    def __len__(self) -> int:
        return len(self.table)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenises texts; each ends with END, and a blank text is END alone."""
        split = list(map(self._split, tokenizer.normalised(texts, self.normalisation)))
        # One call of SentencePiece for all texts, which is faster.
        pieces_of_texts = self.processor.encode([text for _, text in split], out_type=str)
        return [
            [*(self._ids.get(piece, UNKNOWN) for piece in (*language, *pieces)), END]
            for (language, _), pieces in zip(split, pieces_of_texts, strict=True)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Detokenises lists of ids; special ids are dropped."""
        pieces = ([self.table[i] for i in map(int, text) if i >= FIRST_PIECE] for text in ids)
        # SentencePiece leaves the ▁ of a piece that its model lacks, such as the other side's.
        return [self.processor.decode_pieces(x).replace("▁", " ").strip() for x in pieces]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces of ids, with ▁ for a space."""
        return [self.table[int(i)] for i in ids]

    def surfaces(self, text: str) -> list[tuple[str, str]]:
        """Returns each (piece, part of the text) of a text."""
        [text] = tokenizer.normalised([text], self.normalisation)
        language, rest = self._split(text)
        # In '>>fra<< A cat.' the language's part is '>>fra<< ', including the space.
        prefix = text[: len(text) - len(rest)]
        cut = tokenizer.Pieces(self.processor).surfaces(rest)
        return [(piece, prefix) for piece in language] + cut

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that determines ids and text; equal for equal vocabularies."""
        model = tokenizer.fingerprint(self.processor)
        content = json.dumps([model, *self.table]).encode()
        return hashlib.sha256(content).hexdigest()[:16] + self.normalisation

    def _split(self, text: str) -> tuple[list[str], str]:
        """Splits ">>fra<< A cat." into ([">>fra<<"], "A cat."), if the table has that language."""
        match = LANGUAGE.match(text)
        if match and match[0] in self._ids:
            return [match[0]], text[match.end() :].lstrip(" ")
        return [], text

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.table)}


def dumps(table: Sequence[str]) -> bytes:
    """Returns the content of a table's file, a JSON list."""
    return json.dumps(list(table), ensure_ascii=False, indent=0).encode() + b"\n"


def loads(content: bytes, name: str) -> tuple[str, ...]:
    """Loads a table from its file's content; UserError with `name` if it is not a table."""
    try:
        table = json.loads(content)
    except ValueError as error:
        raise UserError(f"damaged: {name} is not a table of pieces ({error})") from error
    # Such as Marian's vocab.json, an object {piece: id}.
    if not isinstance(table, list) or {*map(type, table)} != {str}:
        raise UserError(f"{name} is not a table of pieces: expected a JSON list of strings")
    return tuple(table)


# For registry.VOCABULARIES; the files are source.model, target.model, and shared.pieces or
# source.pieces and target.pieces. It is not learnt.
KIND = Kind(
    names=lambda stems: ["source.model", "target.model", *(f"{stem}.pieces" for stem in stems)],
    load=lambda file: PieceTable(tokenizer.load_processor(*file("model")), loads(*file("pieces"))),
    learn=None,
)
