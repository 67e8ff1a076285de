"""mbr.rank against a plain mean over all samples."""

import pytest
import sacrebleu

from transformer.decoding import mbr

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


def utility(name, hypothesis, reference):
    if name == "chrf":
        return sacrebleu.sentence_chrf(hypothesis, [reference]).score
    return sacrebleu.sentence_bleu(hypothesis, [reference]).score


def mean(name, hypothesis, samples):
    return sum(utility(name, hypothesis, other) for other in samples) / len(samples)


@pytest.mark.parametrize("name", mbr.UTILITIES)
def test_the_mean_utility_over_all_samples(name):
    ranking = mbr.rank(SAMPLES, utility=name)
    assert [text for text, _ in ranking] == sorted(
        dict.fromkeys(SAMPLES), key=lambda text: -mean(name, text, SAMPLES)
    )
    for text, score in ranking:
        assert score == pytest.approx(mean(name, text, SAMPLES))
    assert ranking[0][1] > 40 > 15 > ranking[-1][1]


def test_the_sample_is_the_hypothesis_and_the_others_are_references():
    """BLEU is not symmetric: a short text against a long one, and the reverse."""
    short, long = "the cat sat on the mat", "the cat sat on the mat and slept all day long ."
    there, back = utility("bleu", short, long), utility("bleu", long, short)
    assert there < back - 3
    ranking = dict(mbr.rank([short, long], utility="bleu"))
    assert ranking[short] == pytest.approx((100 + there) / 2)
    assert ranking[long] == pytest.approx((100 + back) / 2)


def test_utilities_are_different():
    chrf, bleu = (dict(mbr.rank(SAMPLES, utility=u)) for u in mbr.UTILITIES)
    assert chrf.keys() == bleu.keys()
    assert chrf[SAMPLES[0]] != pytest.approx(bleu[SAMPLES[0]], abs=1)


@pytest.mark.parametrize("often", ["a b c d e", "v w x y z"])
def test_what_is_drawn_more_often_counts_more_often(often):
    rare = {"a b c d e": "v w x y z", "v w x y z": "a b c d e"}[often]
    ranking = mbr.rank([rare, often, often], utility="chrf")
    assert [text for text, _ in ranking] == [often, rare]
    assert ranking[0][1] == pytest.approx(200 / 3)
    assert ranking[1][1] == pytest.approx(100 / 3)


@pytest.mark.parametrize("name", mbr.UTILITIES)
@pytest.mark.parametrize("texts", [["v w", "a b", "m n"], ["m n", "v w", "a b"], ["a b", "v w"]])
def test_ties_stay_in_the_order_they_were_drawn(name, texts):
    ranking = mbr.rank(texts, utility=name)
    assert len({score for _, score in ranking}) == 1
    assert [text for text, _ in ranking] == texts


@pytest.mark.parametrize("name", mbr.UTILITIES)
def test_one_sample(name):
    [(text, score)] = mbr.rank(["the cat sat"], utility=name)
    assert text == "the cat sat"
    assert score == pytest.approx(100)


@pytest.mark.parametrize("name", mbr.UTILITIES)
def test_nothing_but_empty_samples(name):
    [(text, score)] = mbr.rank(["", ""], utility=name)
    assert text == ""
    assert 0 <= score <= 100
