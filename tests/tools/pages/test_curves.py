"""Curves: which points are drawn; a report's golden page has their plots."""

import itertools
import math

import pytest

from transformer.tools.pages import curves


def test_points_are_finite_and_evenly_thinned_to_the_newest():
    values = [math.nan, 1.0, math.inf, 2, "3", None, 10**400]
    lines = [{"step": i, "loss": x} for i, x in enumerate(values)]
    assert curves.points([*lines, {"step": 9}], "loss") == [(1, 1.0), (3, 2)]
    points = curves.points([{"step": i, "loss": float(i)} for i in range(1, 10_001)], "loss")
    assert len(points) == curves.MAX_POINTS
    assert points[-1] == (10_000, 10_000.0)
    assert {b[0] - a[0] for a, b in itertools.pairwise(points)} == {25}


@pytest.mark.parametrize("lowest", [1e-3, 0.0])
def test_a_logarithm_needs_positive_numbers(lowest):
    spec = curves.plot("", {"a": [(1, lowest), (2, 1.0)]}, logarithmic=True).spec
    assert ("type" in spec["layer"][0]["encoding"]["y"]["scale"]) == (lowest > 0)
