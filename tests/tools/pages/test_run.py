"""A run is read from its workdir, whatever of it is there."""

import json
import math

import pytest
from tools.pages import workdirs

from transformer.errors import UserError
from transformer.tools.pages.run import read_log


def test_resumes_are_the_starts_above_step_0(tmp_path):
    starts = [{"step": step, "time": ""} for step in (0, 70, 0, 100, 100, 40)]
    run = workdirs.load(workdirs.write(tmp_path / "run", starts=starts))
    assert run.resumes() == [40, 100]
    assert [start["step"] for start in run.starts] == [0, 100, 100, 40]  # 70 was lost


def test_the_newest_result_is_the_last_evaluation(tmp_path):
    results = [{"set": name, "step": i} for i, name in enumerate(["a", "b", "a.old", "a"])]
    files = {"a.source": ["x"], "a.old.source": ["y"], "b.source": ["z"]}
    folder = workdirs.write(tmp_path / "run", results=results, files=files)
    (folder / "evaluation" / "lost.json").write_text(json.dumps({"set": "lost", "step": 9}))
    evaluations = workdirs.load(folder).evaluations
    assert [evaluation.result["set"] for evaluation in evaluations] == ["lost", "b", "a.old", "a"]
    sources = [{}, *({"source": [text]} for text in "zyx")]
    assert [evaluation.outputs for evaluation in evaluations] == sources


def test_columns_are_of_one_length_or_refused(tmp_path):
    [evaluation] = workdirs.translated(tmp_path).evaluations
    roles = ("input", "output", "reference")
    assert list(map(len, evaluation.columns(*roles))) == [60, 60, 60]
    assert evaluation.columns("input", "measure") is None
    evaluation.outputs["hypothesis"].pop()
    counts = "source 60, hypothesis 59, reference 60"
    with pytest.raises(UserError, match=rf"{evaluation.stem}\.\*.*{counts}.*evaluate the run"):
        evaluation.columns(*roles)


FACTS = {
    **{"parameters": 1, "processes": 1, "devices": 1},
    **{"device": "cpu", "strategy": "jit", "data": "1 pair"},
}
WRONG = ["x", [1], {}, None, True, math.nan, math.inf, 1e308, 10**400]


@pytest.mark.parametrize(
    ("name", "line", "keys"),
    [
        ("metrics.jsonl", {"kind": "train", "step_seconds": 1, "skipped": 0}, "step step_seconds"),
        ("metrics.jsonl", {"kind": "validation", "samples": "x"}, "skipped step"),
        ("starts.jsonl", {**FACTS, "mesh": [1], "time": ""}, "step devices parameters processes"),
        ("evaluations.jsonl", {"set": "test"}, "step sentences"),
    ],
)
def test_a_line_with_a_value_of_another_type_is_skipped(tmp_path, name, line, keys):
    """Who reads a number calculates with it."""
    line |= {"step": 5}
    bad = [{**line, key: value} for key in keys.split() for value in WRONG]
    texts = {key for key, value in line.items() if isinstance(value, str)}
    bad += [{**line, key: value} for key in texts for value in WRONG[1:]]
    bad += [[line], {key: value for key, value in line.items() if key != "step"}]
    (tmp_path / name).write_text("".join(f"{json.dumps(x)}\n" for x in [line, *bad, line]))
    assert read_log(tmp_path, name) == [line, line]


def test_any_number_or_text_may_be_a_score(tmp_path):
    """A task names its own."""
    line = {"kind": "validation", "step": 1, "time": 0.5, "tokens": "x", "loss": math.inf}
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(line)}\n")
    assert read_log(tmp_path, "metrics.jsonl") == [line]
