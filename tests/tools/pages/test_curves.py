"""Curves: which numbers of a log are drawn, and what is said beside them."""

import itertools
import math

import pytest
from tools.pages import workdirs

from transformer.tools.pages import curves
from transformer.tools.pages.page import Plot


def section_of(folder):
    return curves.section(workdirs.load(folder))


def plots(section):
    return {part.title: part for part in section.parts if isinstance(part, Plot)}


def values(plot, series):
    [data] = [plot.spec["data"]["values"]]
    return [(row["step"], row["value"]) for row in data if row["series"] == series]


def test_each_measure_has_a_plot(tmp_path):
    log = [*workdirs.lines(), {"kind": "test", "step": 200, "loss": 9}]
    log += [{"kind": "validation", "step": 200, "bleu": 20.0, "signature": "x", "strange_score": 1}]
    drawn = plots(section_of(workdirs.write(tmp_path / "run", log=log)))
    rest = ["Perplexity", "BLEU", "Strange score", "Learning rate", "Gradient norm", "Throughput"]
    assert list(drawn) == ["Loss", *rest]
    loss = drawn["Loss"]
    assert values(loss, "training") == [(50, 6.0), (100, 3.0), (150, 2.0), (200, 1.5)]
    assert values(loss, "validation") == [(100, 3.3), (200, 1.65)]
    assert loss.table.columns == ["step", "training", "validation"]
    assert loss.table.rows[:2] == [[50, 6.0, ""], [100, 3.0, 3.3]]
    ends = "From first to last: training 6 → 1.5, validation 3.3 → 1.65."
    assert loss.description.endswith(ends)
    assert drawn["Throughput"].description.startswith("Tokens a second")


def test_points_are_finite_and_evenly_thinned_to_the_newest():
    values = [math.nan, 1.0, math.inf, 2, "3", None]
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


def test_what_the_log_says_of_the_run(tmp_path):
    """All plots end at the same step; skipped updates and a missing log are said."""
    log = [*workdirs.lines(), {"kind": "train", "step": 250, "loss": 1.0, "skipped": 3}]
    section = section_of(workdirs.write(tmp_path / "run", log=log))
    assert "3 updates were skipped" in section.parts[0]
    for plot in plots(section).values():
        scale = plot.spec["layer"][0]["encoding"]["x"]["scale"]
        assert (scale["domainMin"], scale["domainMax"]) == (0, 250)
    section = section_of(workdirs.write(tmp_path / "empty"))
    assert not plots(section)
    assert "has no metrics.jsonl" in section.parts[0]
