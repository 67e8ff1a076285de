"""Minimum Bayes risk: the ranking against a plain mean over all samples, and of a model's."""

import pytest
import sacrebleu
from helpers.decoders import build, hypotheses_of

from transformer.errors import UserError
from transformer.families.sampling import mbr

SAMPLES = [
    "the cat sat on the mat",
    "a cat sat on the mat .",
    "the cat sat on the mat",
    "the dog sat on a mat",
    "",
    "cats sit on mats and on other cats and mats",
    "the cat sat on the mat",
    "a cat sat on the mat .",
]


def mean(name, hypothesis, samples):
    score = sacrebleu.sentence_chrf if name == "chrf" else sacrebleu.sentence_bleu
    return sum(score(hypothesis, [other]).score for other in samples) / len(samples)


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_the_mean_utility_over_all_samples(name):
    ranking = mbr.rank(SAMPLES, utility=name)
    assert [text for text, _ in ranking] == sorted(
        dict.fromkeys(SAMPLES), key=lambda text: -mean(name, text, SAMPLES)
    )
    for text, score in ranking:
        assert score == pytest.approx(mean(name, text, SAMPLES))
    assert ranking[0][1] > 40 > 15 > ranking[-1][1]
    # Ties stay in the order they were drawn.
    for texts in (["v w", "a b", "m n"], ["m n", "v w", "a b"], ["a b"]):
        ranking = mbr.rank(texts, utility=name)
        assert [text for text, _ in ranking] == texts
        assert len({score for _, score in ranking}) == 1


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_samples_are_ranked_by_utility(utility, untrained):
    lines = ["a b c h h d e", "e f g h a b c"]
    samples = hypotheses_of(untrained, lines, method="sample", num_hypotheses=9)
    options = {"method": "mbr", "num_samples": 9, "utility": utility}
    by_line = hypotheses_of(untrained, lines, num_hypotheses=4, **options)
    for hypotheses, texts in zip(by_line, samples, strict=True):
        ranked = mbr.rank([sample.text for sample in texts], utility=utility)
        assert [h.text for h in hypotheses] == [text for text, _ in ranked[:4]]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in ranked[:4]])
    best = list(build(untrained[0], **options).translate(untrained[1], lines))
    assert best == [hypotheses[0].text for hypotheses in by_line]


def test_no_more_are_ranked_than_drawn():
    with pytest.raises(UserError, match=r"num_hypotheses=5.*config\.decode\.num_samples=4\Z"):
        build(method="mbr", num_samples=4, num_hypotheses=5)
