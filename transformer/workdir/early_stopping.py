"""Compares the scores of validations, and decides on early stopping."""

import math


def signed(score: float, best_is: str) -> float:
    """Returns the score such that higher is better: negated if `best_is` is 'lowest'.

    NaN, which is never the best, gives -inf.
    """
    if math.isnan(score):
        return -math.inf
    return -score if best_is == "lowest" else score


def is_out_of_patience(lines: list[dict], patience: int, best_by: str, best_is: str) -> bool:
    """Returns whether early stopping is due: no new best score in the last `patience` validations.

    `lines` are a log's, `best_by` names the score. With patience 0 early stopping is off. Example:
    patience 2, 'highest', scores 3 5 4 5: stop, because equalling the best is no improvement.
    """
    validations = (x.get(best_by) for x in lines if x["kind"] == "validation")
    scores = [signed(x, best_is) for x in validations if isinstance(x, int | float)]
    # Compares the last `patience` scores with all before them: as patience < len(scores), there is
    # at least one before them.
    return 0 < patience < len(scores) and max(scores[-patience:]) <= max(scores[:-patience])
