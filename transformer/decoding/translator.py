"""Text -> text: tokenises lines, splits over-long ones, searches, joins and detokenises.

Lines are read in chunks, so that memory does not grow with the input. Within a chunk, equal parts
are searched once.
"""

import functools
import itertools
import logging
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data import tokenizer
from transformer.data.batches import prefetch
from transformer.decoding import batch_sizes, compiled, methods
from transformer.decoding.batch_decoder import BatchDecoder, Hypotheses, Part
from transformer.errors import UserError, check_value
from transformer.models import fields

IN_PARTS = "line %d: %d pieces are more than config.decode.max_length=%d: translated in %d parts"


class Request(NamedTuple):
    """A line to translate, and what its translation must begin with and have."""

    source: str
    prefix: str = ""
    # {term of the source: its translation}, see Method.required
    terms: Mapping[str, str] = types.MappingProxyType({})


class Hypothesis(NamedTuple):
    """A translation and its score: log P / length penalty, or another score of the method.

    The score of a line translated in parts is the sum of their scores, before the method ranks.
    """

    text: str
    score: float
    missing: tuple[str, ...] = ()  # required phrases that it does not have
    # By an estimator, see registry.ESTIMATORS: the probability that the translation is good, that
    # of each word given those before it, and whether the first is too low; None without estimator.
    confidence: float | None = None
    words: tuple[tuple[str, float], ...] = ()
    flagged: bool | None = None

    def details(self) -> dict:
        """Returns the score, what is missing if anything is, and what an estimator says."""
        estimated = ("confidence", "words", "flagged") if self.flagged is not None else ()
        names = ("score", *(["missing"] if self.missing else ()), *estimated)
        return {name: getattr(self, name) for name in names}


class Translator:
    """Translates lines of text with a model."""

    def __init__(
        self, model: nn.Module, vocabulary: tokenizer.Vocabulary, **decode: int | float | str
    ):
        """Takes the keys of config.decode (configs/translation.py); UserError for a wrong value."""
        fields.check_methods(model)
        # The longest output and its end symbol take this many positions. A source of max_length
        # ids has an output of at most max_length - 1 + extra_length.
        longest = max(decode["max_length"] + decode["extra_length"], decode["min_length"] + 1)
        what = "config.decode.max_length + config.decode.extra_length, or min_length + 1"
        fields.check_positions(model, longest, f"{what}, which is {longest}")
        if vocabulary and decode["tag"]:
            check_value("decode.tag", decode["tag"], ("", *tokenizer.tags(vocabulary.source)))
        self.model, self.vocabulary = model, vocabulary
        self.batch_decoder = BatchDecoder(model, vocabulary and vocabulary.target, **decode)
        self.decode, self.method = self.batch_decoder.decode, self.batch_decoder.method
        # Maps requests and their hypotheses to hypotheses with more fields.
        self.estimate: Callable | None = None

    def translate(
        self,
        params: dict,
        lines: Iterable[str],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
    ) -> Iterator[str]:
        """Yields the best translation of each line, in order; "" for a blank line.

        If `lines` are only part of a text, `numbers` are their line numbers in it, from 0, because
        random draws depend on them. `advance` as in `hypotheses`.
        """
        tokenizer.check_list(lines)
        for hypotheses in self.hypotheses(params, map(Request, lines), advance, numbers=numbers):
            yield hypotheses[0].text

    def hypotheses(
        self,
        params: dict,
        requests: Iterable[Request],
        advance: Callable[[int], None] = lambda count: None,
        *,
        numbers: Iterable[int] | None = None,
        read_ahead: bool = False,
    ) -> Iterator[list[Hypothesis]]:
        """Yields up to `num_hypotheses` translations of each line, best first.

        Samples are in the order drawn. A blank line has one translation, the empty one. `advance`
        gets the number of lines just finished, before they are yielded.

        `read_ahead` searches the next chunk while the caller uses the current one, even if the
        caller stops taking answers. It suits requests that are ready at once, as from a file.
        """
        params = compiled.cast_params(params, self.model)
        numbered = zip(itertools.count() if numbers is None else numbers, requests, strict=False)
        chunks = batch_sizes.chunks(numbered, self.decode.chunk_lines)
        search = functools.partial(self._search, params, advance)
        for answers in prefetch(search, chunks) if read_ahead else map(search, chunks):
            yield from answers

    def rehearse(self, params: dict, lengths: np.ndarray) -> None:
        """Runs a search's last step in the largest shape that sources of these lengths need."""
        lengths = np.minimum(lengths, self.decode.max_length).tolist()
        self.batch_decoder.rehearse(compiled.cast_params(params, self.model), lengths)

    def _search(
        self, params: dict, advance: Callable[[int], None], chunk: list[tuple[int, Request]]
    ) -> Iterable[list[Hypothesis]]:
        """Returns the hypotheses of each line of a chunk.

        Each distinct part is searched once. Example: the lines "a", "b c" (over-long, in two
        parts), "a" have `parts_of_line` [0], [1, 2], [0] and need three searches.
        """
        index_of_part = {}  # distinct parts, in the order of their first line
        parts_of_line, phrases_of_line = [], []
        numbers, requests = zip(*chunk, strict=True)
        # One call for all lines, because a call per line takes seven times as long.
        tagged = functools.partial(tokenizer.tagged, self.decode.tag)
        texts = [tagged(x.source) if x.source.strip() else "" for x in requests]
        sources = self.vocabulary.source.encode(texts)
        prefixes = self.vocabulary.target.encode([x.prefix for x in requests])
        for line, source, (*prefix, _) in zip(chunk, sources, prefixes, strict=True):
            parts = [*self._parts(*line, source, prefix)]
            indices = [index_of_part.setdefault(x, len(index_of_part)) for x, _ in parts]
            parts_of_line.append(indices)
            phrases_of_line.append([phrase for _, phrases in parts for phrase in phrases])
        num_done = 0

        # The decoder reports the fraction done, `advance` takes the number of further lines.
        def report(share: float) -> None:
            nonlocal num_done
            before, num_done = num_done, int(share * len(chunk))
            advance(num_done - before)

        hypotheses = self.batch_decoder(params, list(index_of_part), report)
        report(1)
        hypotheses_of_line = [joined([hypotheses[i] for i in parts]) for parts in parts_of_line]
        answers = self._texts(hypotheses_of_line, numbers, phrases_of_line)
        return self.estimate(requests, answers) if self.estimate else answers

    def _parts(
        self, number: int, request: Request, source: list[int], prefix: list[int]
    ) -> Iterator[tuple[Part, list[str]]]:
        """Yields the parts of a line, each with the phrases that its translation must have."""
        parts = list(split(source, self.vocabulary.source, self.decode.max_length))
        self._check_length(number, "a prefix", prefix)
        if len(parts) > 1:
            logging.warning(IN_PARTS, number + 1, len(source), self.decode.max_length, len(parts))
        for i, ids in enumerate(parts):
            phrases = self._required(number, ids, request.terms)
            # Without terms no call, because one takes as long as a short line's other work.
            stems = [x.removesuffix("*") for x in phrases]
            encoded = self.vocabulary.target.encode(stems) if phrases else ()
            pairs = zip(encoded, phrases, strict=True)
            required = tuple(tuple(x[:-1] if y.endswith("*") else x) for x, y in pairs)
            self._check_length(number, "prefix and terms", [*prefix, *itertools.chain(*required)])
            # The prefix begins the line's translation, so it binds the first part only. Equal parts
            # have different samples, because `random_key` makes them distinct.
            random_key = (number, i) if self.method.draws else ()
            yield Part(tuple(ids), () if i else tuple(prefix), required, random_key), phrases

    def _required(self, number: int, ids: list[int], terms: Mapping[str, str]) -> list[str]:
        """Returns the phrases that the translation of a part must have."""
        if not (terms or self.method.required):
            return []
        if not self.method.required:
            raise UserError(f"line {number + 1}: terms need config.decode.method='terminology'")
        texts = [*terms, *terms.values()] if isinstance(terms, Mapping) else [None]
        if not all(isinstance(text, str) and text.replace("*", "").strip() for text in texts):
            form = '{"TERM": "TRANSLATION"}'
            raise UserError(f"line {number + 1}: terms must be {form}, found {terms!r:.80}")
        [text] = self.vocabulary.source.decode([ids])
        return [*self.method.required(text, terms)]

    def _check_length(self, number: int, what: str, ids: list[int]) -> None:
        """Raises UserError if a line's given ids are over config.decode.max_length."""
        if len(ids) > self.decode.max_length:
            raise UserError(
                f"line {number + 1}: {what} of {len(ids)} pieces, over "
                f"config.decode.max_length={self.decode.max_length}"
            )

    def _texts(
        self,
        hypotheses_of_line: list[Hypotheses],
        numbers: Sequence[int],
        phrases_of_line: list[list[str]],
    ) -> Iterator[list[Hypothesis]]:
        """Yields the best `num_hypotheses` of each line, detokenised."""
        flat = [ids for hypotheses in hypotheses_of_line for ids, _ in hypotheses]
        # Byte pieces can spell a line break, but each input line has one output line.
        texts = (re.sub(r"[\n\r]", " ", x) for x in self.vocabulary.target.decode(flat))
        lines = zip(hypotheses_of_line, numbers, phrases_of_line, strict=True)
        for hypotheses, number, phrases in lines:
            scored = self.method.rank([(next(texts), score) for _, score in hypotheses])
            best = scored[: self.decode.num_hypotheses]
            answer = [Hypothesis(x, score, methods.missing(phrases, x)) for x, score in best]
            if missing := ", ".join(answer[0].missing):
                logging.warning("line %d: not in its translation: %s", number + 1, missing)
            yield answer


def split(ids: list[int], vocabulary: tokenizer.Pieces, max_length: int) -> Iterator[list[int]]:
    """Yields the ids of a text in parts of at most max_length; nothing for the end symbol alone.

    A part ends before the last word that starts in its second half, or else within a word. Each
    part has the end symbol: with max_length 3, ▁a ▁b ▁c ▁d </s> becomes ▁a ▁b </s> and ▁c ▁d </s>.
    A tag at the beginning is each part's.
    """
    num_tags = bool(re.fullmatch(tokenizer.TAG, vocabulary.pieces(ids[:1])[0]))
    tag, ids = ids[:num_tags], ids[num_tags:]
    max_pieces = max_length - 1 - num_tags  # pieces of a part, without tag and end symbol
    starts_word = lambda i: vocabulary.pieces(ids[i : i + 1])[0].startswith("▁")
    start = 0
    while len(ids) - 1 - start > max_pieces:
        # From the last possible cut back to the middle of the part.
        cuts = range(start + max_pieces, start + max_pieces // 2, -1)
        stop = next(filter(starts_word, cuts), start + max_pieces)
        yield [*tag, *ids[start:stop], vocabulary.end]
        start = stop
    if len(ids) - 1 > start:
        yield [*tag, *ids[start:]]


def joined(parts: list[Hypotheses]) -> Hypotheses:
    """Joins the k-th hypotheses of a line's parts into the line's k-th.

    The part with the fewest hypotheses limits their number. A blank line has no parts, and gets the
    empty hypothesis.
    """
    # zip(*) turns hypotheses by part into the k-th hypotheses of all parts.
    lines = [tuple(zip(*k, strict=True)) for k in zip(*parts, strict=False)]
    return [(list(itertools.chain(*ids)), sum(scores)) for ids, scores in lines] or [([], 0.0)]
