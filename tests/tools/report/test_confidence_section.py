"""The section has bins with their intervals, and thresholds; a damaged file is one line."""

import json

import pytest
from tools.pages import workdirs

from transformer.errors import UserError
from transformer.tools.pages import measures, page
from transformer.tools.report import confidence_section

BINS = [[0.2, 3, 10], [0.8, 9, 10]]


def test_a_calibrated_run_shows_its_bins_and_thresholds(tmp_path):
    run = workdirs.load(workdirs.write(tmp_path / "run"))
    assert confidence_section.section(run) is None

    def section(**changes):
        values = {"bins": BINS, "thresholds": [[0.5, 0.4, 0.9, 0.7]], "summary": "Sure & <b>"}
        (run.workdir / "confidence.json").write_text(json.dumps(values | changes))
        return confidence_section.section(run)

    _, plot, table = section().parts
    expected = [[mean, *measures.wilson(good, n), n] for mean, good, n in BINS]
    assert plot.table.rows == expected
    drawn = plot.spec["data"]["values"]
    assert [[x["predicted"], x["good"]] for x in drawn] == [row[:2] for row in expected]
    assert table.rows == [[0.5, 0.4, 0.9, 0.7]]
    html = page.html("Run", [section()])
    assert "Sure &amp; &lt;b&gt;" in html
    assert html.count("<figure") == 1
    for bins in ([[0.2, 1, 0]], [[0.2, 1]], [], {}, [["x", 1, 1]], [[0.5, float("nan"), 1]]):
        with pytest.raises(UserError, match=r"damaged: .*confidence.json is not of"):
            section(bins=bins)
