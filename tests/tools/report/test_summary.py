"""The run in a few lines: what was trained on what, how long, and how well."""

import re

import pytest
from tools.pages import workdirs

from transformer.errors import UserError
from transformer.tools.report import summary


def rows(run):
    [facts] = summary.section(run).parts
    return facts


def test_a_run_in_a_few_lines(tmp_path):
    log = [*workdirs.lines()]
    log[-1] |= {"bleu": 20.0, "chrf": 40.5}
    starts = [{"step": step, "time": f"2026-11-2{step // 100}T21:34:56+00:00"} for step in (0, 100)]
    run = workdirs.translated(tmp_path, log=log, starts=starts, best_step=200)
    facts = rows(run)
    interval = r"\d\d\.\d\d\s\[\d\d\.\d\d,\s\d\d\.\d\d\]"
    result = f"BLEU {interval}, chrF {interval}; in brackets are 95 % in"
    assert re.match(result, facts.pop("Result"))
    time = "20 s without validations, begun 2026-11-20 21:34 UTC, resumed from 100"
    assert facts == {
        "Task": "translation, en to de",
        "Model": "transformer, 1,234,567 parameters, float32",
        "Data": "600 training pairs",
        "Devices": "8 × TPU v5, 1 process, jit",
        "Training": f"200 of 100,000 steps, {time}",
        "Validation": "BLEU 20.00, chrF 40.50, loss 1.6500 (best, of step 200)",
        "Test set": "test, 60 sentences",
        "Weights": "best, of step 200",
        "Signature": "nrefs:1|tok:13a",
        "Seed": "0",
    }
    assert summary.headline(run) == "Translation, en to de. BLEU 50.00 on test."


def test_what_was_not_recorded_is_said(tmp_path):
    run = workdirs.load(workdirs.write(tmp_path / "run"))
    facts = rows(run)
    assert "how many parameters is not known" in facts["Model"]  # there is no vocabulary either
    assert "no starts.jsonl" in facts["Devices"]
    assert facts["Training"] == "no step is logged"
    assert facts["Validation"] == "none is logged"
    assert run.command("evaluate") in facts["Result"]
    assert summary.headline(run) == "Translation, en to de. Not evaluated yet."


def test_the_time_is_that_of_all_steps_however_many_lines_there_are(tmp_path):
    """A resumed run may log more often, and what is not finite is not logged."""
    log = workdirs.lines([100, 200, 220, 260])
    run = workdirs.load(workdirs.write(tmp_path / "a", log=log))
    assert ", 26 s without validations" in rows(run)["Training"]
    # Without a best step, the newest validation is shown; its step counts as trained.
    log = [line for line in workdirs.lines() if (line["kind"], line["step"]) != ("train", 200)]
    facts = rows(workdirs.load(workdirs.write(tmp_path / "b", log=log)))
    assert facts["Validation"] == "loss 1.6500 (newest, of step 200)"
    assert facts["Training"].startswith("200 of 100,000 steps")


def test_an_accuracy_has_an_interval(tmp_path):
    words = rows(workdirs.classified(tmp_path))["Result"].replace("\u00a0", " ")
    scores = "accuracy 0.5000 [0.1876, 0.8124], macro F1 0.5000"
    assert words == f"{scores}; in brackets is the 95 % interval"


def test_bleu_is_of_the_tokenizer_that_scored_the_result(tmp_path):
    """Not of config.json's, which --mode=evaluate may have been told to change."""
    run = workdirs.translated(tmp_path)
    results = [rows(run)["Result"]]
    run.evaluations[-1].result["signature"] = "nrefs:1|tok:char|version:2"
    results.append(rows(run)["Result"])
    assert results[0] != results[1]
    run.evaluations[-1].result["signature"] = "nrefs:1|tok:x"
    with pytest.raises(UserError, match=r"damaged: 'nrefs:1\|tok:x' is not sacreBLEU's"):
        rows(run)
