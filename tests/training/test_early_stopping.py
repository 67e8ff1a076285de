"""Early stopping without a new best score."""

import math

import pytest

from transformer.training.loop import Due


def validations(*scores):
    """Returns log lines of validations with these BLEU scores, between lines of training."""
    lines = []
    for step, bleu in enumerate(scores, start=1):
        lines += [{"kind": "train", "step": step, "loss": 1.0}]
        lines += [{"kind": "validation", "step": step, "bleu": bleu}]
    return lines


@pytest.mark.parametrize(
    ("scores", "patience", "stops"),
    [
        ([], 1, False),
        ([1.0], 1, False),
        ([1.0, 1.0], 1, True),
        ([1.0, 1.1], 1, False),
        ([3.0, 2.0, 2.5], 2, True),
        ([3.0, 2.0, 2.5], 3, False),
        ([3.0, 2.0, 3.1], 2, False),
        ([3.0, 2.0, 3.0], 2, True),
        ([1.0, 2.0, 3.0, 2.9], 2, False),
        ([5.0, 1.0, 1.0, 1.0], 0, False),
        ([3.0, math.nan, math.nan], 2, True),
        ([math.nan, 3.0], 1, False),
        ([3.0, "x", [1], 2.0], 1, True),
    ],
)
def test_early_stopping_by_patience(scores, patience, stops):
    due = Due(9, 1, 1, patience, "bleu", "highest")
    assert due.is_out_of_patience(validations(*scores)) == stops
    lower = validations(*(-x if isinstance(x, float) else x for x in scores))
    assert due._replace(best_is="lowest").is_out_of_patience(lower) == stops
