"""Text -> text: lines are tokenised, split where over-long, searched, detokenised and joined.

Lines are taken in chunks, so that memory does not grow with the input. Within a chunk, equal parts
are searched once.
"""

import itertools
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import batch_sizes, compiled, sampling
from transformer.decoding.batch_decoder import BatchDecoder, Hypotheses, Part, Search
from transformer.errors import UserError
from transformer.models import fields

Tree = dict

METHODS = ("encode", "prepare", "step")  # of the model
FIRST_CHUNK = 64  # lines in the first chunk when reading ahead, so that it is answered early
LONG_TEXT = 1 << 16  # characters that are tokenised in one call
# Scripts without spaces: Thai, Lao, Tibetan and Burmese; Khmer; kana; Chinese characters.
SPACELESS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)


class Request(NamedTuple):
    """A line to translate, and the text that its translation must begin with."""

    source: str
    prefix: str = ""


class Hypothesis(NamedTuple):
    """A translation and its score: log P / length penalty, or with 'mbr' the mean utility.

    The score of a line that was translated in parts is the sum of the parts' scores.
    """

    text: str
    score: float


class Chunk(NamedTuple):
    """Lines in a search: line i is made of the parts numbered parts_of_line[i]."""

    parts_of_line: list[list[int]]
    search: Search


class Translator:
    """Translates lines of text with a model; `num_split` counts the over-long lines so far."""

    def __init__(
        self, model: nn.Module, vocabulary: tokenizer.Vocabulary, **decode: int | float | str
    ):
        """Takes the keys of config.decode (configs/translation.py); UserError for a wrong value."""
        limit = {"beam": "beam_width", "mbr": "num_samples"}.get(decode["method"])
        if limit and decode["num_hypotheses"] > decode[limit]:
            raise UserError(
                f"config.decode.num_hypotheses={decode['num_hypotheses']} must be at most "
                f"config.decode.{limit}={decode[limit]}"
            )
        fields.check_methods(model, METHODS)
        self._utility = decode.pop("utility")
        self.max_length = decode.pop("max_length")
        self._chunk_lines = decode.pop("chunk_lines")
        # The end symbol of the longest output is predicted from this many positions. A source of
        # max_length ids has an output of at most max_length - 1 + extra_length.
        longest = max(self.max_length + decode["extra_length"], decode["min_length"] + 1)
        limit = getattr(model, "position_limit", math.inf)
        if limit < longest:
            raise UserError(
                f"config.model.max_positions={limit} learned positions are too few: "
                "config.decode.max_length + config.decode.extra_length, or "
                f"config.decode.min_length + 1, need {longest}"
            )
        self.model = model
        self._dtype = getattr(model, "dtype", "float32")
        self.vocabulary = vocabulary
        self.batch_decoder = BatchDecoder(model, **decode)
        self._num_hypotheses = decode["num_hypotheses"]
        self.num_split = 0

    def translate(
        self,
        params: Tree,
        lines: Iterable[str],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
    ) -> Iterator[str]:
        """Yields the best translation of each line, in order; "" for a blank line.

        `numbers` are the line numbers in the whole text, from 0, where `lines` are only some of
        them: random draws depend on these numbers. `advance` as in `hypotheses`.
        """
        tokenizer.check_list(lines)
        requests = map(Request, lines)
        for hypotheses in self.hypotheses(params, requests, advance, numbers=numbers):
            yield hypotheses[0].text

    def hypotheses(
        self,
        params: Tree,
        requests: Iterable[Request],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
        read_ahead: bool = False,
    ) -> Iterator[list[Hypothesis]]:
        """Yields up to `num_hypotheses` translations of each line, best first.

        Samples come in the order drawn. A blank line has one translation, the empty one. `advance`
        gets the number of further lines that are done, before these are yielded.

        `read_ahead` suits requests that need not be waited for, as from a file: the first chunk is
        small, and the search of a chunk begins before the answers of the one before are yielded.
        """
        params = compiled.cast_params(params, dtype=self._dtype)
        # A queue of chunks, lazily: no more lines are read than the chunks in progress need.
        numbers = itertools.count() if numbers is None else iter(numbers)
        requests = iter(requests)
        first = itertools.islice(requests, FIRST_CHUNK if read_ahead else 0)
        num_characters = lambda request: sum(map(len, request))
        begun = (
            self._begin(params, chunk, list(itertools.islice(numbers, len(chunk))))
            for part in (first, requests)
            for chunk in batch_sizes.chunks(part, self._chunk_lines, num_characters)
        )
        for chunk in one_ahead(begun) if read_ahead else begun:
            yield from self._answers(chunk, advance)

    def rehearse(self, params: Tree, lengths: np.ndarray) -> None:
        """Runs a search's last step in the largest shape that sources of these lengths need."""
        params = compiled.cast_params(params, dtype=self._dtype)
        self.batch_decoder.rehearse(params, np.minimum(lengths, self.max_length).tolist())

    def _begin(self, params: Tree, requests: list[Request], numbers: list[int]) -> Chunk:
        """Begins to search a chunk of lines.

        Each distinct part is searched once. Example: the lines "a", "b c" (over-long, in two
        parts), "a" give `parts_of_line` [0], [1, 2], [0]: three searches.
        """
        index_of_part = {}  # distinct parts, in the order of their first line
        parts_of_line = []
        sources = self._sources([request.source for request in requests], numbers)
        prefixes = self.vocabulary.target.encode([request.prefix for request in requests])
        for number, source, (*prefix, _) in zip(numbers, sources, prefixes, strict=True):
            if len(prefix) > self.max_length:
                raise UserError(
                    f"line {number + 1}: a prefix of {len(prefix)} pieces is over "
                    f"config.decode.max_length={self.max_length}"
                )
            parts_of_line.append([])
            # The prefix begins the line's translation: it binds the first part only.
            for i, ids in enumerate(source):
                # Samples of equal parts differ, because `random_key` is part of what is compared.
                random_key = () if self.batch_decoder.method == "beam" else (number, i)
                part = Part(tuple(ids), () if i else tuple(prefix), random_key)
                parts_of_line[-1].append(index_of_part.setdefault(part, len(index_of_part)))
        return Chunk(parts_of_line, self.batch_decoder.submit(params, list(index_of_part)))

    def _answers(self, chunk: Chunk, advance: Callable[[int], None]) -> Iterator[list[Hypothesis]]:
        """Waits for the end of a search, then yields each line's hypotheses."""
        parts_of_line, search = chunk
        num_done = 0

        # `finish` reports fractions, `advance` takes lines: the difference since the last report.
        def report(share: float) -> None:
            nonlocal num_done
            before, num_done = num_done, int(share * len(parts_of_line))
            advance(num_done - before)

        hypotheses_by_part = self._texts(search.finish(report))
        report(1)
        ready = []  # the texts of parts 0, 1, ..., made only when their line comes
        # Parts are numbered by first use: a line needs those up to its largest number.
        for parts in parts_of_line:
            missing = max(parts, default=-1) + 1 - len(ready)
            ready.extend(itertools.islice(hypotheses_by_part, max(0, missing)))
            yield joined([ready[i] for i in parts]) if parts else [Hypothesis("", 0.0)]

    def _sources(self, lines: list[str], numbers: list[int]) -> Iterator[list[list[int]]]:
        """Yields each line's ids in parts of at most max_length; counts and logs split lines."""
        sources = split(lines, self.vocabulary.source, self.max_length)
        for number, line, parts in zip(numbers, lines, sources, strict=True):
            if len(parts) > 1:
                self.num_split += 1
                message = (
                    "line %d (%d characters) has more than config.decode.max_length=%d pieces: "
                    "translated in %d parts"
                )
                logging.warning(message, number + 1, len(line), self.max_length, len(parts))
            yield parts

    def _texts(self, hypotheses_by_part: list[Hypotheses]) -> Iterator[list[Hypothesis]]:
        """Detokenises each part's hypotheses, ranks samples with 'mbr', keeps num_hypotheses."""
        flat = [ids for hypotheses in hypotheses_by_part for ids, _ in hypotheses]
        # Byte pieces can spell a line break, but each line of input is one line of output.
        texts = iter(
            text.replace("\n", " ").replace("\r", " ")
            for text in self.vocabulary.target.decode(flat)
        )
        for hypotheses in hypotheses_by_part:
            scored = [(next(texts), score) for _, score in hypotheses]
            if self.batch_decoder.method == "mbr":
                scored = sampling.rank([text for text, _ in scored], utility=self._utility)
            yield list(itertools.starmap(Hypothesis, scored[: self._num_hypotheses]))


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


def split(
    lines: Sequence[str], vocabulary: tokenizer.Pieces, max_length: int
) -> Iterator[list[list[int]]]:
    """Yields each line's ids in parts of at most max_length; no part for a blank line.

    A part ends before the last word that begins in its second half, else within a word. Each part
    has the end symbol: [▁a ▁b ▁c ▁d </s>] with max_length 3 gives [▁a ▁b </s>] and [▁c ▁d </s>].
    """
    cut_lines = [list(_cut(line)) if line.strip() else [] for line in lines]
    # One call for all: with a call for each line, tokenisation takes seven times as long.
    encoded = iter(vocabulary.encode(list(itertools.chain.from_iterable(cut_lines))))
    for texts in cut_lines:
        yield [part for _ in texts for part in _parts(next(encoded), vocabulary, max_length)]


def _parts(ids: list[int], vocabulary: tokenizer.Pieces, max_length: int) -> Iterator[list[int]]:
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


def join_texts(parts: list[str]) -> str:
    """Joins the parts of a line by a space, or by nothing in a script without spaces.

    A script without spaces is assumed if most characters are SPACELESS and at most one in ten is a
    space.
    """
    text = "".join(parts)
    spaceless = len(SPACELESS.findall(text)) > len(text) / 2 and text.count(" ") <= len(text) / 10
    return text if spaceless else " ".join(parts)


def joined(
    parts: list[list[Hypothesis]], join: Callable[[list[str]], str] = join_texts
) -> list[Hypothesis]:
    """Joins the k-th hypotheses of a line's parts into the line's k-th hypothesis.

    The part with the fewest hypotheses limits their number.
    """
    if len(parts) == 1:
        return parts[0]
    # zip(*): from hypotheses by part to the k-th hypotheses of all parts.
    count = min(map(len, parts))
    lines = zip(*(part[:count] for part in parts), strict=True)
    return [Hypothesis(join([h.text for h in k]), sum(h.score for h in k)) for k in lines]
