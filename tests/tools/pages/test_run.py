"""A run is read from its workdir, whatever of it is there."""

import json

import pytest
from tools.pages import workdirs

from transformer.errors import UserError


def test_a_workdir_is_read(tmp_path):
    results = [{"set": "test", "step": 200, "bleu": 1.0}]
    folder = workdirs.write(tmp_path / "run", log=workdirs.lines(), results=results)
    run = workdirs.load(folder)
    assert [line["step"] for line in run.logged("train")] == [50, 100, 150, 200]
    assert [line["step"] for line in run.logged("validation")] == [100, 200]
    assert [result["bleu"] for result in run.results] == [1.0]
    assert run.command("evaluate") == f"python launch.py --mode=evaluate --workdir={folder}"
    bare = workdirs.load(workdirs.write(tmp_path / "bare"))
    assert (bare.lines, bare.results, bare.evaluations) == ([], [], [])


def test_resumes_are_the_starts_above_step_0(tmp_path):
    starts = [{"step": step, "time": ""} for step in (0, 70, 0, 100, 100, 40)]
    run = workdirs.load(workdirs.write(tmp_path / "run", starts=starts))
    assert run.resumes() == [40, 100]
    assert [start["step"] for start in run.starts] == [0, 100, 100, 40]  # 70 was lost


def test_only_a_complete_checkpoint_is_the_best(tmp_path):
    folder = workdirs.write(tmp_path / "run")
    for step, is_complete in ((100, True), (200, False)):
        (folder / "best" / str(step)).mkdir(parents=True)
        if is_complete:
            (folder / "best" / str(step) / "checksums.json").write_text("{}")
    assert workdirs.load(folder).best_step == 100


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


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_damaged_result_is_named(tmp_path, content):
    folder = workdirs.write(tmp_path / "run")
    (folder / "evaluation" / "test.json").write_text(content)
    with pytest.raises(UserError, match=r"damaged: .*test\.json is not"):
        workdirs.load(folder)
