"""The run in a few lines: what was trained on what, how long, and how well."""

import re

import pytest
from helpers import workdirs

from transformer.errors import UserError
from transformer.tools.report import summary


def rows(this):
    [facts] = summary.section(this).parts
    return facts


def test_a_run_in_a_few_lines(tmp_path):
    log = [*workdirs.lines()]
    log[-1] |= {"bleu": 20.0, "chrf": 40.5}
    starts = [{"step": step, "time": f"2026-11-2{step // 100}T21:34:56+00:00"} for step in (0, 100)]
    this = workdirs.translated(tmp_path, log=log, starts=starts, best_step=200)
    facts = rows(this)
    assert facts["Task"] == "translation, en to de"
    assert facts["Model"] == "transformer, 1,234,567 parameters, float32"
    assert facts["Data"] == "600 training pairs"
    assert facts["Devices"] == "8 × TPU v5, 1 process, jit"
    assert facts["Training"] == (
        "200 of 100,000 steps, 20 s without validations, begun 2026-11-20 21:34 UTC, resumed from "
        "100"
    )
    assert facts["Validation"] == "BLEU 20.00, chrF 40.50, loss 1.6500 (best, of step 200)"
    interval = r"\d\d\.\d\d\s\[\d\d\.\d\d,\s\d\d\.\d\d\]"
    assert re.match(f"BLEU {interval}, chrF {interval}; in brackets are 95 % in", facts["Result"])
    assert facts["Test set"] == "test, 60 sentences"
    assert facts["Signature"] == "nrefs:1|tok:13a"
    assert facts["Weights"] == "best, of step 200"
    assert summary.headline(this) == "Translation, en to de. BLEU 50.00 on test."


def test_what_was_not_recorded_is_said(tmp_path):
    this = workdirs.load(workdirs.write(tmp_path / "run"))
    facts = rows(this)
    assert "how many parameters is not known" in facts["Model"]  # there is no vocabulary either
    assert "no starts.jsonl" in facts["Devices"]
    assert facts["Training"] == "no step is logged"
    assert facts["Validation"] == "none is logged"
    assert this.command("evaluate") in facts["Result"]
    assert summary.headline(this) == "Translation, en to de. Not evaluated yet."


def test_without_a_best_step_the_newest_validation_is_shown(tmp_path):
    this = workdirs.load(workdirs.write(tmp_path / "run", log=workdirs.lines()))
    assert rows(this)["Validation"] == "loss 1.6500 (newest, of step 200)"


def test_steps_after_the_last_logged_one_count(tmp_path):
    log = [line for line in workdirs.lines() if (line["kind"], line["step"]) != ("train", 200)]
    this = workdirs.load(workdirs.write(tmp_path / "run", log=log))
    assert rows(this)["Training"].startswith("200 of 100,000 steps")


def test_an_accuracy_has_an_interval(tmp_path):
    facts = rows(workdirs.classified(tmp_path))
    words = facts["Result"].replace("\u00a0", " ")
    assert (
        words
        == "accuracy 0.5000 [0.1876, 0.8124], macro F1 0.5000; in brackets is the 95 % interval"
    )


def test_bleu_is_of_the_tokenizer_that_scored_the_result(tmp_path):
    """Not of config.json's, which --mode=evaluate may have been told to change."""
    this = workdirs.translated(tmp_path)
    results = [rows(this)["Result"]]
    this.evaluations[-1].result["signature"] = "nrefs:1|tok:char|version:2"
    results.append(rows(this)["Result"])
    assert results[0] != results[1]
    this.evaluations[-1].result["signature"] = "nrefs:1|tok:x"
    with pytest.raises(UserError, match=r"damaged: 'nrefs:1\|tok:x' is not sacreBLEU's"):
        rows(this)


def test_the_time_is_that_of_all_steps_however_many_lines_there_are(tmp_path):
    """A resumed run may log more often, and what is not finite is not logged."""
    log = workdirs.lines([100, 200, 220, 260])
    this = workdirs.load(workdirs.write(tmp_path / "run", log=log))
    assert ", 26 s without validations" in rows(this)["Training"]
