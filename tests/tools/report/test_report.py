"""--mode=report writes one page beside the run: what is read on it, and that a browser shows it."""

import functools
import json

import pytest
from helpers import reversal, tiny
from tools.pages import browser, golden, workdirs

import launch
from transformer.errors import UserError
from transformer.families.language_model import language_evaluator
from transformer.tasks import translation
from transformer.workdir import results


def translated(folder):
    """A run that was resumed, skipped updates, logged samples, and translated 60 sentences."""
    log = [*workdirs.lines([50, 100, 150, 200, 300, 350])]
    for line, guess in zip([x for x in log if x["kind"] == "validation"], "112", strict=True):
        line["samples"] = translation.SAMPLE.format("둘 & 셋", f"two <b> {guess}", "two <b> 2")
        line["samples"] += "\n" + translation.SAMPLE.format("하나", "one" * int(guess), "oneone")
        line |= {"bleu": 20.0, "strange_score": 1, "signature": "x", "nats_per_token": 2.0}
    log.append({"kind": "train", "step": 370, "loss": 1.0, "skipped": 3})
    log.append({"kind": "test", "step": 380})
    starts = [{"step": x, "time": f"2026-11-{20 + x // 50}T21:34:56+00:00"} for x in (50, 0, 150)]
    changes = {"model__d_model": 64, "train__num_steps": 25_000, "data__directory": "/home/me"}
    run = workdirs.translated(folder, log=log, starts=starts, **changes)
    for step in (200, 300):
        (run.workdir / "best" / str(step)).mkdir(parents=True)
    (run.workdir / "best" / "200" / "checksums.json").write_text("{}")  # 300 is incomplete
    return run.workdir


def classified(folder):
    """A run that has classified six texts, with a key that its task does not know."""
    log = [line for line in workdirs.lines() if (line["kind"], line["step"]) != ("train", 200)]
    return workdirs.classified(folder, log=log, model__cell="gru").workdir


def written(folder):
    """A language model that has written texts, without spaces at which a line could break."""
    log = [*workdirs.lines(range(100, 1201, 100))]
    for line in log:
        if line["kind"] == "validation":
            texts = [f"at\n\n{line['step']}", workdirs.HOSTILE, "x" * 300]
            line["samples"] = language_evaluator.format_samples(texts)
    return workdirs.write(folder / "run", task="language_modelling", log=log)


def trained(folder):
    """A run with a checkpoint (of random params), which has translated two sentences."""
    texts = {"test.source": ["a b c", "d e"], "test.hypothesis": ["c b a", "e d"]}
    result = {"set": "test", "split": "test", "step": 7, "steps": [7], "bleu": 1.0}
    result["signature"] = "nrefs:1|tok:13a"
    files = texts | {"test.reference": texts["test.hypothesis"]}
    workdirs.write(folder / "run", log=workdirs.lines(), results=[result], files=files)
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    reversal.write_workdir(folder / "run", tiny.parameters(reversal.model(), inputs))
    return folder / "run"


def untrained(folder, task="translation"):
    return workdirs.write(folder / "run", task=task)


def unwritten(folder):
    return untrained(folder, task="language_modelling")


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A function of one of those above: the page of its run, which is made once."""

    @functools.cache
    def report(make):
        folder = make(tmp_path_factory.mktemp("report"))
        launch.main(["--mode=report", f"--workdir={folder}"])
        return folder / "report.html"

    return report


@pytest.mark.slow
@pytest.mark.parametrize("make", [translated, classified, written, trained, untrained, unwritten])
def test_a_reader_sees(make, reported):
    file = reported(make)
    text = file.read_text()
    assert len(text) < 3e6
    shown = golden.read(text, but="The beam, step by step")  # of random params
    golden.check(shown, __file__, make.__name__, WORKDIR=file.parent)


@pytest.mark.usefixtures("toy_config")
def test_a_new_task_has_a_page_and_a_comparison(tmp_path, capsys):
    """By what its results name, without an edit of a tool."""
    dataset = {"numbers": ["1 2", "3 4"], "sum": ["3", "7"]}
    columns = {"input": "numbers", "reference": "sum", "output": "guess"}
    for name in "ab":
        result = {
            **{"set": "test", "split": "test", "step": 5, "steps": [5], "weights": "best"},
            **{"error": 0.25, "items": 2, "columns": columns, "files": []},
            "checksum": results.checksum(dataset),
        }
        files = {f"test.{x}": lines for x, lines in {**dataset, "guess": ["3", "8"]}.items()}
        wrote = {"log": workdirs.lines(unit="item"), "results": [result], "files": files}
        wrote["starts"] = [{"step": 0, "time": "2026-01-01"}]
        workdirs.write(tmp_path / name, task="toy", **wrote)
    launch.main(["--mode=report", f"--workdir={tmp_path / 'a'}"])
    file = tmp_path / "a" / "report.html"
    assert capsys.readouterr().out == f"{file}\n"
    assert "Toy. error 0.2500 on test." in file.read_text()
    folders = [str(tmp_path / name) for name in "ab"]
    launch.main(["--mode=compare", *folders, "--config.compare.page="])
    *_, line = capsys.readouterr().out.splitlines()
    assert [run["scores"] for run in json.loads(line)["runs"]] == 2 * [{"error": {"value": 0.25}}]


def test_where_no_page_can_be_is_refused(tmp_path):
    folder = workdirs.write(tmp_path / "run")
    (folder / "report.html").mkdir()
    with pytest.raises(UserError, match=r"--mode=report: .*report\.html is a folder, expected a f"):
        launch.main(["--mode=report", f"--workdir={folder}"])


@pytest.mark.slow
@pytest.mark.parametrize("make", [translated, classified, written, trained])
def test_a_browser_shows_it(make, reported):
    with browser.chromium() as driver:
        for _ in browser.open_everywhere(driver, reported(make)):
            inside = driver.find_elements("css selector", ".attention .pair button")
            assert bool(inside) == (make is trained)
