"""--mode=report writes one page beside the run, that a browser shows without a fault."""

import json

import pytest
from helpers import reversal, tiny, toy_task
from tools.pages import browser, workdirs

import launch
from transformer import registry
from transformer.errors import UserError
from transformer.families.language_model import language_evaluator
from transformer.workdir import config_files, results


def test_the_page_is_beside_the_run(tmp_path, capsys):
    folder = workdirs.write(tmp_path / "run", log=workdirs.lines())
    launch.main(["--mode=report", f"--workdir={folder}"])
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    text = (folder / "report.html").read_text()
    assert "<h1>run</h1>" in text
    assert "<h2>Curves</h2>" in text
    assert len(text) < 3e6


def test_a_new_task_has_a_page_and_a_comparison(tmp_path, monkeypatch, capsys):
    """By what its results name, without an edit of a tool."""
    (tmp_path / "toy.py").write_text(toy_task.CONFIG)
    monkeypatch.setattr(config_files, "CONFIGS", tmp_path)
    monkeypatch.setitem(registry.TASKS, "toy", "helpers.toy_task")
    dataset = {"numbers": ["1 2", "3 4"], "sum": ["3", "7"]}
    columns = {"input": "numbers", "reference": "sum", "output": "guess"}
    for name, error in (("a", 0.25), ("b", 0.5)):
        result = {
            **{"set": "test", "split": "test", "step": 5, "steps": [5], "weights": "best"},
            **{"loss": 1.0, "error": error, "items": 2, "columns": columns, "files": []},
            "checksum": results.checksum(dataset),
        }
        files = {f"test.{x}": lines for x, lines in {**dataset, "guess": ["3", "8"]}.items()}
        log, starts = [*workdirs.lines(unit="item")], [{"step": 0, "time": "2026-01-01"}]
        wrote = {"log": log, "starts": starts, "results": [result], "files": files}
        workdirs.write(tmp_path / name, task="toy", **wrote)
    launch.main(["--mode=report", f"--workdir={tmp_path / 'a'}"])
    text = (tmp_path / "a" / "report.html").read_text()
    assert "Toy. error 0.2500 on test." in text
    assert "test, 2 items" in text
    page = tmp_path / "compare.html"
    folders = [str(tmp_path / name) for name in "ab"]
    launch.main(["--mode=compare", *folders, f"--config.compare.page={page}"])
    *_, line = capsys.readouterr().out.splitlines()
    scores = [run["scores"]["error"] for run in json.loads(line)["runs"]]
    assert scores == [{"value": 0.25}, {"value": 0.5}]
    assert "<h2>Curves</h2>" in page.read_text()


def test_where_no_page_can_be_is_refused(tmp_path):
    folder = workdirs.write(tmp_path / "run")
    (folder / "report.html").mkdir()
    with pytest.raises(UserError, match=r"--mode=report: .*report\.html is a folder, expected a f"):
        launch.main(["--mode=report", f"--workdir={folder}"])


def trained(folder, log):
    """A run with a checkpoint (of random params), which has translated two sentences."""
    texts = {"test.source": ["a b c", "d e"], "test.hypothesis": ["c b a", "e d"]}
    result = {"set": "test", "split": "test", "step": 7, "steps": [7], "bleu": 1.0}
    result["signature"] = "nrefs:1|tok:13a"
    files = texts | {"test.reference": texts["test.hypothesis"]}
    workdirs.write(folder / "run", log=log, results=[result], files=files)
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    reversal.write_workdir(folder / "run", tiny.parameters(reversal.model(), inputs))
    return workdirs.load(folder / "run")


def written(folder, log):
    """A language model that has written texts, without spaces at which a line could break."""
    texts = language_evaluator.format_samples([workdirs.HOSTILE, "x" * 300])
    log = [line | ({"samples": texts} if line["kind"] == "validation" else {}) for line in log]
    return workdirs.load(workdirs.write(folder / "run", task="language_modelling", log=log))


@pytest.mark.slow
@pytest.mark.parametrize("make", [workdirs.translated, workdirs.classified, written, trained])
def test_a_browser_shows_it(make, tmp_path):
    folder = make(tmp_path, log=[*workdirs.lines()]).workdir
    launch.main(["--mode=report", f"--workdir={folder}"])
    assert (folder / "report.html").stat().st_size < 3e6
    with browser.chromium() as driver:
        for _ in browser.open_everywhere(driver, folder / "report.html"):
            inside = driver.find_elements("css selector", ".attention .pair button")
            assert bool(inside) == (make is trained)
