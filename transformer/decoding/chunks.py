"""A text in chunks of lines, and over-long lines in parts, which are joined again."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from transformer.data.tokenizer import Pieces
from transformer.decoding.parts import Search
from transformer.errors import UserError

Item = TypeVar("Item")
CHUNK_TEXT = 1 << 23  # characters in a chunk, unless a single line is longer

LONG_TEXT = 1 << 16  # characters that are tokenised in one call
# Scripts without spaces: Thai, Lao, Tibetan and Burmese; Khmer; kana; Chinese characters.
SPACELESS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)


class Chunk(NamedTuple):
    """Lines in a search: line i is made of the parts numbered parts_of_line[i]."""

    parts_of_line: list[list[int]]
    search: Search


def split(lines: Sequence[str], vocabulary: Pieces, max_length: int) -> Iterator[list[list[int]]]:
    """Yields each line's ids in parts of at most max_length; no part for a blank line.

    A part ends before the last word that begins in its second half, else within a word. Each part
    has the end symbol: [▁a ▁b ▁c ▁d </s>] with max_length 3 gives [▁a ▁b </s>] and [▁c ▁d </s>].
    """
    cut_lines = [list(_cut(line)) if line.strip() else [] for line in lines]
    # One call for all: with a call for each line, tokenisation takes seven times as long.
    encoded = iter(vocabulary.encode(list(itertools.chain.from_iterable(cut_lines))))
    for texts in cut_lines:
        yield [part for _ in texts for part in _parts(next(encoded), vocabulary, max_length)]


def _parts(ids: list[int], vocabulary: Pieces, max_length: int) -> Iterator[list[int]]:
    """Yields the ids of a text in parts; nothing if there is only the end symbol."""
    max_pieces = max_length - 1  # pieces of a part, without the end symbol
    start = 0
    while len(ids) - 1 - start > max_pieces:
        # From the last possible cut back to the middle of the part: the first word start found.
        word_starts = (
            i
            for i in range(start + max_pieces, start + max_pieces // 2, -1)
            if vocabulary.pieces(ids[i : i + 1])[0].startswith("▁")
        )
        stop = next(word_starts, start + max_pieces)
        yield [*ids[start:stop], vocabulary.end]
        start = stop
    if len(ids) - 1 > start:
        yield ids[start:]


def _cut(text: str) -> Iterator[str]:
    """Yields a text in pieces of at most LONG_TEXT characters, cut after a space if possible."""
    start = 0
    while len(text) - start > LONG_TEXT:
        stop = text.rfind(" ", start + LONG_TEXT // 2, start + LONG_TEXT) + 1
        stop = stop or start + LONG_TEXT  # rfind gives -1 where there is no space
        yield text[start:stop]
        start = stop
    yield text[start:]


def join(parts: list[str]) -> str:
    """Joins the parts of a line by a space, or by nothing in a script without spaces.

    A script without spaces is assumed if most characters are SPACELESS and at most one in ten is a
    space.
    """
    text = "".join(parts)
    spaceless = len(SPACELESS.findall(text)) > len(text) / 2 and text.count(" ") <= len(text) / 10
    return text if spaceless else " ".join(parts)


def divide(
    items: Iterable[Item], count: int, size: Callable[[Item], int] = lambda item: 0
) -> Iterator[list[Item]]:
    """Yields lists of `count` items, or fewer if their sizes add up to more than CHUNK_TEXT.

    If the iterable raises a UserError, as of a malformed line, the items before it come first.
    """
    batch, total = [], 0
    try:
        for item in items:
            if batch and total + size(item) > CHUNK_TEXT:
                yield batch
                batch, total = [], 0
            batch.append(item)
            total += size(item)
            if len(batch) == count:  # at once: the next line may not be typed yet
                yield batch
                batch, total = [], 0
    except UserError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def one_ahead(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yields each chunk once the search of the next one has begun.

    Lines before an error, such as a malformed line, are translated first. Searches of chunks that
    were not yielded are cancelled at the end.
    """
    begun = []
    try:
        for chunk in chunks:
            begun.append(chunk)
            if len(begun) > 1:
                yield begun.pop(0)
        yield from begun
    except Exception:  # of reading or tokenising: a caller's errors do not come here
        yield from begun
        raise
    finally:  # also when the caller stops early; a search that has finished is not affected
        for chunk in begun:
            chunk.search.cancel()
