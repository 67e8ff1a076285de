"""Trigrams tell the two sides of a corpus apart."""

import numpy as np
from helpers import parallel

from transformer.data.audit import characters, languages


def codes(lines):
    return characters.codes_of(characters.folded(lines))


def test_trigrams_do_not_cross_lines():
    apart = languages.trigrams(codes(["ab", "cde"])[0])
    assert (apart > 0).tolist() == [*[False] * 3, True, *[False] * 3]
    assert apart[3] == languages.trigrams(codes(["cde"])[0])[0]


def test_every_sentence_is_nearer_to_its_own_side():
    pairs = parallel.pairs(600)
    table = languages.table(
        *(languages.count(codes([pair[side] for pair in pairs[:400]])[0]) for side in (0, 1))
    )
    source, target = (
        languages.evidence(*codes([pair[side] for pair in pairs[400:]]), table) for side in (0, 1)
    )
    assert source.max() < 0 < target.min()


def test_evidence_is_the_sum_of_log_ratios():
    """ "aaaa" has the trigram aaa twice, which the target has twice as often."""
    counts = np.zeros((2, languages.BUCKETS))
    aaa, bbb = (languages.trigrams(codes([text])[0])[0] for text in ("aaa", "bbb"))
    counts[0, [aaa, bbb]], counts[1, [aaa, bbb]] = (1, 2), (2, 1)
    smoothed = counts + 0.5
    expected = 2 * np.log(
        (smoothed[1] / smoothed[1].sum())[aaa] / (smoothed[0] / smoothed[0].sum())[aaa]
    )
    evidence = languages.evidence(*codes(["aaaa", ""]), languages.table(*counts))
    np.testing.assert_allclose(evidence, [expected, 0], rtol=1e-6)


def test_the_same_text_on_both_sides_is_evidence_for_neither():
    count = languages.count(codes(["the same text"])[0])
    assert not languages.table(count, count).any()
