"""Brackets as EVALB counts them with COLLINS.prm, worked out by hand."""

import pytest

from transformer.families.parsing import evalb
from transformer.families.parsing.trees import from_text

# (hypothesis, reference, brackets that match, of the hypothesis, of the reference)
CASES = [
    # S 0-3 and NP 0-1 match; VP 1-2 is not VP 1-3.
    ("(S (NP (XX a)) (VP (XX b)) (XX c))", "(S (NP (NN a)) (VP (VB b) (RB c)))", 2, 3, 3),
    # The comma is deleted, so both NP are 0-1.
    ("(S (NP (XX a) (XX ,)) (VP (XX b)))", "(S (NP (NN a)) (, ,) (VP (VBP b)))", 3, 3, 3),
    # VP 0-2 is there twice, and found once; ADVP is PRT.
    ("(VP (XX go) (ADVP (XX up)))", "(VP (VP (VB go) (PRT (RP up))))", 2, 2, 3),
    # PRN has no word but punctuation.
    ("(S (NP (XX a)) (XX -) (VP (XX b)))", "(S (NP (NN a)) (PRN (: -)) (VP (VB b)))", 3, 3, 3),
    # Traces, what has nothing else, function tags and roots do not count.
    ("(TOP (S (VP (XX go))))", "(ROOT (S-IMP (NP-SBJ (-NONE- *)) (VP=1 (VB go))))", 2, 2, 2),
    # Round brackets are words.
    ("(X (XX -LRB-) (NP (XX x)) (XX -RRB-))", "(NP (-LRB- -LRB-) (NN x) (-RRB- -RRB-))", 0, 2, 1),
]


@pytest.mark.parametrize(("hypothesis", "reference", "matched", "predicted", "expected"), CASES)
def test_the_brackets_of_a_sentence(hypothesis, reference, matched, predicted, expected):
    counts = evalb.count(from_text(hypothesis), from_text(reference))
    assert counts == (matched, predicted, expected)


def test_the_score_of_a_corpus_is_that_of_all_brackets():
    """12 of 15 match on both sides, 3 of 6 sentences as a whole; one of a dash does not count."""
    hypotheses, references, *_ = zip(*CASES, strict=True)
    scores = evalb.score([*hypotheses, "(X (XX -))"], [*references, "(NP (: -))"])
    assert scores == {"f1": 80, "precision": 80, "recall": 80, "complete_match": 50}
    assert {*evalb.score(["(TOP (XX a))"], ["(S (NN a))"]).values()} == {0}
