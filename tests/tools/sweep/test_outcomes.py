"""What a run has left, and whether it is that of the config of today; p-values of rows."""

import json
import math

import pytest
from tools.pages import workdirs
from tools.sweep import sweeps
from tools.sweep.sweeps import runs

from transformer.errors import UserError
from transformer.tools.sweep import outcomes
from transformer.workdir import log

TEST = {"kind": "test", "step": 100, "split": "test", "set": "test", "bleu": 9.0, "loss": 1.0}
CHECKPOINT = "checkpoints/100/checksums.json"


@pytest.fixture
def finished(tmp_path):
    """A run with a log, a result and a checkpoint, and its config.json as training writes it."""
    [run] = runs(tmp_path, "[rows.base]")
    lines, starts = [*workdirs.lines(), TEST], [{"step": 0, "time": "2026-11-25"}]
    workdirs.write(run.workdir, log=lines, starts=starts)
    values = {**run.config.copy_and_resolve_references().to_dict(), "versions": {"jax": "0.1"}}
    values["vocabulary"]["fingerprint"] = "abc"  # which preparing fills in
    (run.workdir / "config.json").write_text(json.dumps(values))
    (run.workdir / CHECKPOINT).parent.mkdir(parents=True)
    (run.workdir / CHECKPOINT).touch()
    return run


def test_a_finished_run(finished):
    outcome = outcomes.read(finished, "")
    assert (outcome.parameters, outcome.steps, outcome.seconds) == (1234567, 200, 20.0)
    assert outcome.scores == {"bleu": 9.0, "loss": 1.0}
    assert outcomes.read(finished, "out of memory") == outcomes.Outcome(finished, "out of memory")
    (finished.workdir / "metrics.jsonl").write_text("")  # it was shorter than train.log_every
    assert math.isnan(outcomes.read(finished, "").seconds)


def test_a_run_without_its_last_line_is_unfinished(finished):
    assert outcomes.result(finished) == TEST
    log.Log(finished.workdir, 150).close()  # as resuming does
    assert outcomes.result(finished) == {}
    # A text without a test split is scored on its validation split.
    other = TEST | {"kind": "final_validation", "split": "validation"}
    with open(finished.workdir / "metrics.jsonl", "a") as file:
        file.write(json.dumps(other) + "\n")
    assert outcomes.result(finished) == other


def test_a_run_of_another_config_is_refused(finished, tmp_path):
    outcomes.check_unchanged(finished)
    [moved] = runs(tmp_path, "[rows.base]", "--config.data.data_dir=elsewhere")
    outcomes.check_unchanged(moved)
    [longer] = runs(tmp_path, "[rows.base]", "--config.train.num_steps=30")
    words = r"base-seed0 was trained with config\.train\.num_steps=20, now it is 30: .*workdir"
    with pytest.raises(UserError, match=words):
        outcomes.check_unchanged(longer)
    (finished.workdir / CHECKPOINT).unlink()  # a result alone is used, too
    with pytest.raises(UserError, match=words):
        outcomes.check_unchanged(longer)
    (finished.workdir / "metrics.jsonl").unlink()  # nothing is used: training begins anew
    outcomes.check_unchanged(longer)


@pytest.mark.slow
def test_the_first_seed_that_both_have_is_compared(tmp_path, monkeypatch, caplog):
    sweeps.fake(monkeypatch)

    def row(name, scores):
        """The outcomes of a row's {seed: BLEU, None without a result}."""
        made = []
        for run in runs(tmp_path, f"[rows.{name}]\nseeds = {list(scores)}\n"):
            result = {"kind": "test", "set": "test", "bleu": scores[run.seed]}
            run.workdir.mkdir()
            (run.workdir / "metrics.jsonl").write_text(f"{json.dumps(result)}\n")
            failure = "" if scores[run.seed] else "failed"
            made.append(outcomes.Outcome(run, failure, result={} if failure else result))
        return made

    rows = [row("first", {7: None, 1: 20.0, 2: 21.0}), row("a", {7: 1.0, 2: 22.0})]
    rows += [row("b", {3: 22.0}), row("c", {1: 22.0})]
    p = outcomes.against_first(rows, "bleu")
    assert p == [None, outcomes.PValue(0.04, 1.0, "bleu", 2, "paired bootstrap"), None, None]
    assert "no p-value of c-seed1: they are of different sets" in caplog.text
    # A score without a test: the first that has one.
    assert outcomes.against_first(rows[:2], "nats_per_token")[1].of == "chrf"
