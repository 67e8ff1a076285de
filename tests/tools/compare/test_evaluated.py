"""Which result of a run is read."""

from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, SOURCES, read, worse


def test_the_newest_result_is_read(tmp_path):
    run = evaluated_runs.translations(tmp_path, worse(REFERENCES, 0.2))
    short = {"source": SOURCES[:50], "reference": REFERENCES[:50]}
    evaluated_runs.write_result(run, "val", short, {**short, "hypothesis": SOURCES[:50]}, {})
    assert read(run).result["set"] == "val"
    assert len(read(run).sides["output"]) == 50
    before = read(run, "test")
    assert before.dataset() == {"source": SOURCES, "reference": REFERENCES}
    assert before.sides["output"] == worse(REFERENCES, 0.2)
    again = {"source": SOURCES, "reference": REFERENCES}
    evaluated_runs.write_result(run, "test", again, {**again, "hypothesis": SOURCES}, {})
    assert read(run).sides["output"] == SOURCES
