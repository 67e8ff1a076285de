"""Text <-> ids: a table of characters, for language models of characters.

The special ids are those of tokenizer.py. The characters follow in the order of their code points.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from transformer.data.tokenizer import END, FIRST_PIECE, PAD, START, UNKNOWN, normalised
from transformer.errors import UserError
from transformer.tasks.vocabularies import Kind


@dataclasses.dataclass(frozen=True)
class Characters:
    """The characters of a vocabulary: characters[i] has the id FIRST_PIECE + i.

    A line break is not a character, because each line of a corpus is a text, and ends with END.
    """

    characters: str
    normalisation: str = ""  # of texts before tokenisation
    pad, end, unknown, start = PAD, END, UNKNOWN, START

    def __len__(self) -> int:
        return FIRST_PIECE + len(self.characters)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts, each ending with END; UNKNOWN for an unknown character."""
        ids, texts = self._ids, normalised(texts, self.normalisation)
        return [[*(ids.get(c, UNKNOWN) for c in text), END] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the texts of ids, U+FFFD for UNKNOWN; the other special ids are dropped."""
        # The special ids 0 to 3 are PAD, END, UNKNOWN and START.
        text_of_id = ["", "", "\ufffd", "", *self.characters]
        return ["".join(text_of_id[i] for i in text) for text in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the characters of ids, and names of the special ids."""
        names = ["<pad>", "</s>", "<unk>", "<s>", *self.characters]
        return [names[i] for i in ids]

    def surfaces(self, text: str) -> list[tuple[str, str]]:
        """Returns each (piece, part of the text) of a text: each character twice."""
        [text] = normalised([text], self.normalisation)
        return list(zip(text, text, strict=True))

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.characters.encode()).hexdigest()
        return digest[:16] + self.normalisation

    @property
    def sides(self) -> dict[str, "Characters"]:
        """Returns {'text': this vocabulary}, the only side of plain text (see tokens.py)."""
        return {"text": self}

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {character: FIRST_PIECE + i for i, character in enumerate(self.characters)}


def learn(texts: Iterable[str], **options: Any) -> bytes:
    """Returns the content of a table's file: all characters of the texts, sorted, as UTF-8.

    `options` of other vocabularies, such as their size, are ignored. UserError for blank texts.
    """
    characters = {character for text in texts for character in text}
    if not characters:
        raise UserError("the training text is blank: there are no characters to learn")
    # Sorted, so that ids do not depend on the order of the lines.
    return "".join(sorted(characters)).encode()


def load(content: bytes, name: str) -> Characters:
    """Loads the content of a table's file; `name` is for error messages. UserError if damaged."""
    try:
        characters = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not a table of characters: {error}") from error
    if not characters or len(set(characters)) < len(characters):
        raise UserError(f"{name} is not a table of characters: it is empty, or has one twice")
    return Characters(characters)


# For registry.VOCABULARIES; the file is text.characters.
KIND = Kind(
    names=lambda stems: [f"{stem}.characters" for stem in stems],
    load=lambda file: load(*file("characters")),
    learn=learn,
)
