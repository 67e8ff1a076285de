"""Text -> text: lines as ids that a search can take, and what it found as lines."""

import itertools
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import compiled, mbr
from transformer.decoding.batch_decoder import Found, Part, Searcher
from transformer.errors import UserError

Tree = dict

LONG_TEXT = 1 << 16  # characters that are turned into ids at once
CHUNK_TEXT = 1 << 23  # characters that are sorted by length together, but for one longer line
# Thai, Lao, Tibetan and Burmese; Khmer; kana; Chinese characters.
SPACELESS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)


class Request(NamedTuple):
    """A line to translate, and what its translation begins with."""

    source: str
    prefix: str = ""


class Hypothesis(NamedTuple):
    """A translation and how good it is, by what it was chosen for.

    That is log P over the length penalty, or under 'mbr' the mean utility. A line translated in
    parts has the sum of theirs.
    """

    text: str
    score: float


class Translator:
    """Translates lines of text with a model and its parameters.

    Lines are taken some thousands at a time, so that memory does not grow with the input.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: tokenizer.Vocabulary,
        *,
        utility: str,
        max_length: int,
        chunk_lines: int,
        num_hypotheses: int,
        **options: int | float | str,
    ):
        """The keys of config.decode, whose meaning is in configs/wmt_base.py."""
        if utility not in mbr.UTILITIES:
            raise UserError(
                f"config.decode.utility is one of {', '.join(mbr.UTILITIES)}, found {utility!r}"
            )
        for key, found, least in (("max_length", max_length, 16), ("chunk_lines", chunk_lines, 1)):
            if found < least:
                raise UserError(f"config.decode.{key} is at least {least}, found {found}")
        longest = max_length + max(options["extra_length"], options["min_length"])
        limit = getattr(model, "position_limit", math.inf)
        if limit < longest:
            raise UserError(
                f"config.model.max_positions={limit} learned positions are too few "
                f"for decode.max_length and decode.extra_length (or min_length), which want "
                f"{longest}"
            )
        self.model = model
        self._dtype = getattr(model, "dtype", "float32")
        self.vocabulary = vocabulary
        self.searcher = Searcher(model, num_hypotheses=num_hypotheses, **options)
        self._num_hypotheses = num_hypotheses
        self._utility = utility
        self._max_length = max_length
        self._chunk_lines = chunk_lines
        self.num_split = 0  # lines over max_length so far

    def translate(
        self,
        parameters: Tree,
        lines: Iterable[str],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
    ) -> Iterator[str]:
        """The best translation of every line, in order; a blank line's is empty.

        `numbers` are the lines' in the whole text, if these are some of its lines: what is drawn at
        random depends on them.
        """
        requests = map(Request, lines)
        for hypotheses in self.hypotheses(parameters, requests, advance, numbers=numbers):
            yield hypotheses[0].text

    def hypotheses(
        self,
        parameters: Tree,
        requests: Iterable[Request],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
    ) -> Iterator[list[Hypothesis]]:
        """`num_hypotheses` translations of every line, or as many as there are, best first.

        Samples are in the order they were drawn. A blank line has one translation, an empty one.
        `advance` is told how many more lines are done, before they are given out.
        """
        parameters = compiled.in_dtype(parameters, dtype=self._dtype)
        numbers = itertools.count() if numbers is None else iter(numbers)
        for chunk in self._chunks(requests):
            numbered = list(itertools.islice(numbers, len(chunk)))
            yield from self._translate_chunk(parameters, chunk, numbered, advance)

    def rehearse(self, parameters: Tree, lengths: np.ndarray) -> None:
        """Searches once in the largest shape that sources of these lengths come in."""
        parameters = compiled.in_dtype(parameters, dtype=self._dtype)
        self.searcher.rehearse(parameters, np.minimum(lengths, self._max_length).tolist())

    def _chunks(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        chunk, size = [], 0
        try:
            for request in requests:
                text = len(request.source) + len(request.prefix)
                if chunk and size + text > CHUNK_TEXT:
                    yield chunk
                    chunk, size = [], 0
                chunk.append(request)
                size += text
                if len(chunk) == self._chunk_lines:
                    yield chunk
                    chunk, size = [], 0
        except UserError:  # a line that is wrong; those before it are not
            if chunk:
                yield chunk
            raise
        if chunk:
            yield chunk

    def _translate_chunk(
        self,
        parameters: Tree,
        requests: list[Request],
        numbers: list[int],
        advance: Callable[[int], None],
    ) -> Iterator[list[Hypothesis]]:
        """Each line's hypotheses; `numbers` are the lines'."""
        place = {}  # of a part among those to search; equal ones are searched once
        places = []  # of each line's parts
        for number, request in zip(numbers, requests, strict=True):
            prefix = tuple(tokenizer.encode(self.vocabulary.target, [request.prefix])[0][:-1])
            if len(prefix) > self._max_length:
                raise UserError(
                    f"line {number + 1}: a prefix of {len(prefix)} pieces is over "
                    f"config.decode.max_length={self._max_length}"
                )
            places.append([])
            for i, ids in enumerate(self._parts(request.source, number)):
                draw = () if self.searcher.method == "beam" else (number, i)
                part = Part(tuple(ids), () if i else prefix, draw)
                places[-1].append(place.setdefault(part, len(place)))
        done = 0

        def finished(share: float) -> None:
            nonlocal done
            before, done = done, int(share * len(requests))
            advance(done - before)

        ranked = self._ranked(self.searcher(parameters, list(place), finished))
        finished(1)
        found = []
        for line in places:  # whose parts come in their order, but for those that came before
            found.extend(itertools.islice(ranked, max(0, max(line, default=-1) + 1 - len(found))))
            yield _joined([found[i] for i in line]) if line else [Hypothesis("", 0.0)]

    def _parts(self, text: str, number: int) -> Iterator[list[int]]:
        """A line's ids, in parts of at most max_length, cut before words; none of a blank line."""
        if not text.strip():
            return
        count = 0
        for ids in tokenizer.encode(self.vocabulary.source, list(_cut(text))):
            start, room = 0, self._max_length - 1
            while len(ids) - 1 - start > room:
                words = (
                    i
                    for i in range(start + room, start + room // 2, -1)
                    if self.vocabulary.source.id_to_piece(ids[i]).startswith("▁")
                )
                stop = next(words, start + room)
                yield [*ids[start:stop], tokenizer.END]
                start, count = stop, count + 1
            if len(ids) - 1 > start:
                yield ids[start:]
                count += 1
        if count > 1:
            self.num_split += 1
            logging.warning(
                "line %d: %d characters are over config.decode.max_length=%d pieces: translated "
                "in %d parts",
                *(number + 1, len(text), self._max_length, count),
            )

    def _ranked(self, found: list[Found]) -> Iterator[list[Hypothesis]]:
        """Ids as texts, and of samples the ones asked for."""
        flat = [ids for hypotheses in found for ids, _ in hypotheses]
        # A byte piece may spell a line break, but a line in is a line out.
        texts = iter(
            text.replace("\n", " ").replace("\r", " ")
            for text in tokenizer.decode(self.vocabulary.target, flat)
        )
        for hypotheses in found:
            ranked = [(next(texts), score) for _, score in hypotheses]
            if self.searcher.method == "mbr":
                ranked = mbr.ranked([text for text, _ in ranked], utility=self._utility)
            yield list(itertools.starmap(Hypothesis, ranked[: self._num_hypotheses]))


def _cut(text: str) -> Iterator[str]:
    """A text in parts of at most LONG_TEXT characters, between words where there are any."""
    start = 0
    while len(text) - start > LONG_TEXT:
        stop = text.rfind(" ", start + LONG_TEXT // 2, start + LONG_TEXT) + 1
        stop = stop or start + LONG_TEXT
        yield text[start:stop]
        start = stop
    yield text[start:]


def _joined(parts: list[list[Hypothesis]]) -> list[Hypothesis]:
    """The k-th hypotheses of a line's parts as the line's k-th."""
    if len(parts) == 1:
        return parts[0]
    count = min(map(len, parts))
    lines = zip(*(part[:count] for part in parts), strict=True)
    return [Hypothesis(_text([h.text for h in k]), sum(h.score for h in k)) for k in lines]


def _text(parts: list[str]) -> str:
    """Joins the parts of a line by a space, or by nothing where the text has hardly any: most
    characters are of scripts without spaces, and at most one in ten is a space."""
    text = "".join(parts)
    without = len(SPACELESS.findall(text)) > len(text) / 2 and text.count(" ") <= len(text) / 10
    return text if without else " ".join(parts)
