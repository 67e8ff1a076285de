"""Text -> text: lines are tokenised, split where over-long, searched, detokenised and joined.

Lines are taken in chunks, so that memory does not grow with the input. Within a chunk, equal parts
are searched once.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import chunks, compiled, sampling
from transformer.decoding.batch_decoder import BatchDecoder
from transformer.decoding.parts import Hypotheses, Part
from transformer.errors import UserError
from transformer.models import fields

Tree = dict

METHODS = ("encode", "prepare", "step", "reorder", "grow")  # of the model
FIRST_CHUNK = 64  # lines in the first chunk when reading ahead, so that it is answered early


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
            for chunk in chunks.divide(part, self._chunk_lines, num_characters)
        )
        for chunk in chunks.one_ahead(begun) if read_ahead else begun:
            yield from self._answers(chunk, advance)

    def rehearse(self, params: Tree, lengths: np.ndarray) -> None:
        """Runs a search's last step in the largest shape that sources of these lengths need."""
        params = compiled.cast_params(params, dtype=self._dtype)
        self.batch_decoder.rehearse(params, np.minimum(lengths, self.max_length).tolist())

    def _begin(self, params: Tree, requests: list[Request], numbers: list[int]) -> chunks.Chunk:
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
        return chunks.Chunk(parts_of_line, self.batch_decoder.submit(params, list(index_of_part)))

    def _answers(
        self, chunk: chunks.Chunk, advance: Callable[[int], None]
    ) -> Iterator[list[Hypothesis]]:
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
        sources = chunks.split(lines, self.vocabulary.source, self.max_length)
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


def joined(
    parts: list[list[Hypothesis]], join: Callable[[list[str]], str] = chunks.join
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
