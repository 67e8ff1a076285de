"""A comparison as values: the order of the runs changes the baseline only."""

import pytest
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, worse
from tools.pages import workdirs

from transformer.tools.compare import comparison, evaluated


def test_the_order_changes_the_baseline_only(tmp_path):
    """Of three runs, each worse than the one before."""
    runs = []
    for name, share in (("best", 0.1), ("middle", 0.5), ("worst", 0.9)):
        folder = evaluated_runs.translations(tmp_path / name, worse(REFERENCES, share))
        runs.append(evaluated.read(workdirs.load(folder)))
    there, back = (comparison.compare(x, resamples=100, num_items=200) for x in (runs, runs[::-1]))
    for name in ("bleu", "chrf"):
        scores = [x.measures[name].scores for x in (there, back)]
        assert [x.interval for x in scores[0]] == [x.interval for x in scores[1][::-1]]
        assert scores[0][0].p == scores[1][0].p == 1.0
        assert scores[0][2].p == pytest.approx(scores[1][2].p)
        values = [x.interval.value for x in scores[0]]
        assert values == sorted(values, reverse=True)
    assert [x.number for x in there.items] == [x.number for x in back.items]
    assert [x.scores for x in there.items] == [x.scores[::-1] for x in back.items]
    spread = [max(x.scores) - min(x.scores) for x in there.items]
    assert spread == sorted(spread, reverse=True)
    assert min(spread) > 0  # lines that are the same for all are left out
    for name, bucket in there.lengths.items():
        assert bucket.count == back.lengths[name].count
        intervals = [x.interval for x in bucket.measures["bleu"].scores]
        assert intervals == [x.interval for x in back.lengths[name].measures["bleu"].scores[::-1]]
