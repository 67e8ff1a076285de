"""ROUGE by hand, of Korean too, and of ASCII text as rouge-score's own tokeniser has it."""

import sys

import numpy as np
import pytest

from transformer.errors import UserError
from transformer.families.summaries import rouge

WITHOUT = "rouge-score is not installed"


def test_korean_by_hand():
    """Of 3 words 2 are the reference's; of the letters 나는사과를좋아해 and 나는배를좋아해 6."""
    pytest.importorskip("rouge_score", reason=WITHOUT)
    korean = ["나는 사과를 좋아해."], ["나는 배를 좋아해!"]
    expected = {"rouge1": 100 * 2 / 3, "rouge2": 0, "rougeL": 100 * 2 / 3}
    assert rouge.word_scores(*korean) == pytest.approx(expected)
    # Eight and seven letters: F1 of 6/8 and 6/7; pairs: 나는, 를좋, 좋아, 아해 of seven and six.
    letters, pairs = 100 * 2 * 6 / (8 + 7), 100 * 2 * 4 / (7 + 6)
    expected = {"rouge1": letters, "rouge2": pairs, "rougeL": letters}
    expected = {f"{name}_characters": value for name, value in expected.items()}
    assert rouge.character_scores(*korean) == pytest.approx(expected)


def test_ascii_text_has_the_tokens_of_rouge_score():
    """Whose own tokeniser has none of Korean text: what it says is the same scores 0."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason=WITHOUT)
    theirs = scorer.RougeScorer(rouge.NAMES, use_stemmer=False)
    hypotheses = ["The Tgfbr_2 -/- mice, (n = 3), didn't gain weight.", "", "사과"]
    references = ["Mice (Tgfbr_2-/-) did not gain any weight", "a b", "사과"]
    for name, values in rouge.item_scores(hypotheses, references, rouge.words).items():
        scores = [theirs.score(*pair)[name] for pair in zip(references, hypotheses, strict=True)]
        expected = [100 * score.fmeasure for score in scores]
        np.testing.assert_allclose(values[:2], expected[:2])
        assert (values[2], expected[2]) == (100 * (name != "rouge2"), 0)


def test_a_word_keeps_its_marks():
    """Vowel signs, and an accent that is a character of its own, are no letters."""
    assert rouge.words("हिन्दी में, cafe\u0301 (사과)") == ["हिन्दी", "में", "cafe\u0301", "사과"]


def test_without_the_package_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(UserError, match=r"\AROUGE needs a package: pip install rouge-score\Z"):
        rouge.word_scores([""], [""])
