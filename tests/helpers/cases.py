"""Cases of parametrised tests."""

import pytest


def slow_but(cases, *fast):
    """The cases, of which only these are in the fast set."""
    as_tuple = lambda case: case if isinstance(case, tuple) else (case,)
    slow = lambda case: pytest.param(*as_tuple(case), marks=pytest.mark.slow)
    return [case if case in fast else slow(case) for case in cases]
