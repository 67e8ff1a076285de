"""Cases of parametrised tests."""

import pytest

from transformer import registry


def slow_but(cases, *fast):
    """The cases, of which only these are in the fast set."""
    as_tuple = lambda case: case if isinstance(case, tuple) else (case,)
    slow = lambda case: pytest.param(*as_tuple(case), marks=pytest.mark.slow)
    return [case if case in fast else slow(case) for case in cases]


def registered(box, *names):
    """Those of a box's parts that the registry has: families can be deleted."""
    return [name for name in names if name in registry.PARTS[box]]
