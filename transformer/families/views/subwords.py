"""Sampled sub-words: BPE-dropout, and subword regularisation of a unigram model.

SentencePiece samples, too, but not from a seed: its draws depend on the texts before, and since
0.2.3 on the process.
"""

import functools
import itertools
import math
from collections.abc import Callable
from random import Random

import sentencepiece

from transformer.data import tokenizer
from transformer.errors import check_value
from transformer.families.views.views import View

LONGEST = 256  # characters of a drawn word, because drawing takes the square of them


def subwords(alpha: float = 0.1) -> View:
    """Draws the pieces of each word, on both sides.

    Of 'bpe', alpha is the probability that a merge is dropped. Of 'unigram', a segmentation has a
    probability in proportion to P^alpha. Tags, words that have bytes, and words over LONGEST stay
    as they are.
    """
    check_value("data.views: alpha of subwords", alpha, "at least 0 and at most 1")

    def ids(side: tokenizer.Pieces, text: str, random: Random) -> list[int]:
        scores, segment = _model(side.processor)
        words, pieces = [], []
        for piece in side.processor.encode(text, out_type=str):
            if piece.startswith("▁") or not words:
                words.append([])
            words[-1].append(piece)
        for word in words:
            characters = "".join(word)
            is_drawn = scores.keys() >= {*word} and len(characters) <= LONGEST
            pieces += segment(characters, scores, alpha, random) if is_drawn else word
        return [*side.processor.piece_to_id(pieces), tokenizer.END]

    return View(ids=ids)


def merged(word: str, scores: dict[str, float], alpha: float, random: Random) -> list[str]:
    """Merges the characters of a word into pieces, by BPE-dropout (Provilkov et al. 2020)."""
    pieces = [*word]
    while True:
        merges = [
            (scores[left + right], -i)
            for i, (left, right) in enumerate(itertools.pairwise(pieces))
            if left + right in scores and random.random() >= alpha
        ]
        if not merges:
            return pieces
        i = -max(merges)[1]  # the first of the best
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


def sampled(word: str, scores: dict[str, float], alpha: float, random: Random) -> list[str]:
    """Samples a segmentation of a word in proportion to P^alpha (Kudo 2018)."""
    log_sums = [0.0]  # of P^alpha over all segmentations of word[:end]

    def ways(end: int) -> list[tuple[int, float]]:
        """Returns (start of the last piece, log of the sum) of each piece that ends at `end`."""
        pieces = ((i, word[i:end]) for i in range(end) if log_sums[i] > -math.inf)
        return [(i, log_sums[i] + alpha * scores[x]) for i, x in pieces if x in scores]

    for end in range(1, len(word) + 1):
        logs = [log for _, log in ways(end)]
        top = max(logs, default=-math.inf)
        log_sums.append(top + math.log(sum(math.exp(x - top) for x in logs)) if logs else top)
    pieces, end = [], len(word)
    while end:  # from the last piece to the first
        starts, logs = zip(*ways(end), strict=True)
        [start] = random.choices(starts, [math.exp(x - log_sums[end]) for x in logs])
        pieces.insert(0, word[start:end])
        end = start
    return pieces


@functools.cache
def _model(processor: sentencepiece.SentencePieceProcessor) -> tuple[dict[str, float], Callable]:
    """Returns {piece: score} of a model without its special pieces, and how to draw pieces."""
    model = tokenizer.proto(processor)
    scores = {x.piece: x.score for x in model.pieces if x.type == x.NORMAL}
    spec = model.trainer_spec
    return scores, sampled if spec.model_type == spec.UNIGRAM else merged
