"""Sampled sub-words have the text of their line and the probabilities of the papers."""

import collections
import itertools
import math
from random import Random

import pytest
from helpers.corpora import text, vocabulary

from transformer.data import tokenizer
from transformer.families.views import subwords

SCORES = {"a": -1.0, "b": -2.0, "ab": -2.5, "ba": -2.0, "aba": -4.0, "bab": -6.0}
WORD = "ababa"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sampled_subwords_have_the_text_and_whole_tags(kind):
    texts = [f"<2de> {line} ☃" for line in text(1)]  # with an unknown character
    options = {"size": 320, "kind": kind, "character_coverage": 1.0, "tags": ("<2de>",)}
    model = tokenizer.learn_pieces([*text(1), *text(2)], **options)
    side = vocabulary({"shared.model": model}, kind).source
    drawn = [subwords.subwords(0.1).ids(side, line, Random(line)) for line in texts]
    assert side.decode(drawn) == texts
    assert sum(x != y for x, y in zip(drawn, side.encode(texts), strict=True)) > 150
    assert {(side.pieces(ids)[0], ids[-1]) for ids in drawn} == {("▁<2de>", tokenizer.END)}
    [plain] = side.encode([long := 99 * "belauen"])
    assert subwords.subwords(1.0).ids(side, long, Random(0)) == plain
    ids, seeds = subwords.subwords(0.0).ids, (1, 2)  # every merge, or any segmentation
    without = [[ids(side, line, Random(f"{n} {line}")) for line in texts] for n in seeds]
    assert len({repr(x) for x in (*without, side.encode(texts))}) == (1 if kind == "bpe" else 3)


def test_segmentations_have_a_probability_in_proportion_to_p_to_the_alpha():
    cuts = [x for n in range(5) for x in itertools.combinations(range(1, 5), n)]
    ways = [[WORD[i:j] for i, j in itertools.pairwise((0, *x, 5))] for x in cuts]
    weights = {tuple(x): math.exp(0.3 * sum(map(SCORES.get, x))) for x in ways if {*x} <= {*SCORES}}
    random, total = Random(0), sum(weights.values())
    draw = lambda: tuple(subwords.sampled(WORD, SCORES, 0.3, random))
    counts = collections.Counter(draw() for _ in range(20_000))
    assert counts.keys() == weights.keys()
    assert all(abs(counts[x] / 20_000 - w / total) < 0.01 for x, w in weights.items())
    assert subwords.sampled("xyz", {"y": 0.0, "z": 0.0, "xyz": -9.0}, 1.0, random) == ["xyz"]


def test_merges_are_dropped_anew_before_each_merge():
    random, merges = Random(0), {"ab": 0.0}
    draw = lambda: tuple(subwords.merged("abab", merges, 0.3, random))
    counts = collections.Counter(draw() for _ in range(20_000))
    # One of both is kept first with probability 1 - 0.3^2, the other then with 0.7.
    shares = {("a", "b", "a", "b"): 0.09, ("ab", "ab"): 0.91 * 0.7}
    assert all(abs(counts[x] / 20_000 - share) < 0.015 for x, share in shares.items())
    assert subwords.merged("aba", {"ab": -2.5, "ba": -2.0}, 0.0, random) == ["a", "ba"]
