"""p-values against the first row: of which runs, and of which score."""

import json

import pytest
from tools.sweep import sweeps

from transformer.tools.sweep import outcomes as p_values
from transformer.tools.sweep.outcomes import Outcome


@pytest.fixture
def row(tmp_path, monkeypatch):
    """A function of a row's name and {seed: BLEU, None without a result}: its outcomes."""
    sweeps.fake(monkeypatch)

    def make(name, scores):
        outcomes = []
        for run in sweeps.runs(tmp_path, f"[rows.{name}]\nseeds = {list(scores)}\n"):
            result = {"kind": "test", "set": "test", "bleu": scores[run.seed]}
            run.workdir.mkdir()
            (run.workdir / "metrics.jsonl").write_text(f"{json.dumps(result)}\n")
            failure = "" if scores[run.seed] else "failed"
            outcomes.append(Outcome(run, failure, result={} if failure else result))
        return outcomes

    return make


def test_the_first_seed_that_both_have_is_compared(row, caplog):
    rows = [row("first", {7: None, 1: 20.0, 2: 21.0}), row("a", {7: 1.0, 2: 22.0})]
    rows += [row("b", {3: 22.0}), row("c", {1: 22.0})]
    p = p_values.against_first(rows, "bleu")
    assert p == [None, p_values.PValue(0.04, 1.0, "bleu", 2, "paired bootstrap"), None, None]
    assert "no p-value of c-seed1: they are of different sets" in caplog.text
    # A score without a test: the first that has one.
    assert p_values.against_first(rows[:2], "nats_per_token")[1].of == "chrf"
