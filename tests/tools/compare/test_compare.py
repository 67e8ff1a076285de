"""The mode compare: from folders on the command line to tables, a line of JSON and a page."""

import io
import json
import math
import pathlib
import re

import pytest
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, SOURCES, worse
from tools.pages import browser, golden, workdirs
from tools.pages.workdirs import HOSTILE

import launch
from transformer.errors import UserError

A, B, C, LONG = map(pathlib.Path, ("a", "b", "c", "second run" * 6))


def translations():
    """Two runs of different configs, which were not scored alike; the second has a long name."""
    lines = [HOSTILE, *worse(REFERENCES, 0.9)[1:]]
    changes = {"train__init_from": HOSTILE, "model__num_layers": 32, "decode__workers": 2}
    changes |= {"model__sizes": (1, 2), "data__pack": False}
    evaluated_runs.translations(A, worse(REFERENCES, 0.2))
    evaluated_runs.translations(LONG, lines, **changes)
    scored = {"weights": "average", "decode": {"beam_width": 17}, "length_ratio": 0.98765}
    evaluated_runs.rewrite(LONG, lambda x: x | scored | {"loss": math.inf})
    return A, LONG


def classifications():
    """Three classifiers of one config, the first two with the same predictions."""
    labels = ["a", "b"] * 20
    for folder, predictions in ((A, labels), (B, labels), (C, ["a"] * 40)):
        evaluated_runs.classifications(folder, predictions, labels)
    return A, B, C


def texts():
    """Two language models of the same name, the second with twice the bits."""
    lines = ["abc", "defgh", ""] * 20
    for folder, rate in ((A, 1.0), (B / A, 2.0)):
        evaluated_runs.texts(folder, lines, [rate * (len(line) + 1) for line in lines])
    return A, B / A


def without_outputs():
    """Two runs of a task that keeps no outputs, though a score is that of a kind."""
    dataset = {"source": ["a"], "reference": ["b"]}
    columns = {"input": "source", "reference": "reference"}
    for folder, scores in ((A, {"error": 0.5}), (B, {"error": 1.0, "odd_score": 1e-7})):
        evaluated_runs.write(folder, "test", dataset, dataset, {"bleu": 1.0, **scores})
        evaluated_runs.rewrite(folder, lambda result: result | {"columns": columns})
    return A, B


KINDS = [translations, classifications, texts, without_outputs]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder, from which paths are relative."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(*arguments):
    options = ("--config.compare.resamples=100", "--config.compare.sentences=5")
    launch.main(["--mode=compare", *options, *map(str, arguments)])


def readable(line):
    """A line of JSON, which has neither NaN nor infinity, as a line a key and a run."""
    refuse = lambda name: pytest.fail(f"{name} is no JSON")
    values = json.loads(line, parse_constant=refuse, parse_float=lambda x: float(f"{float(x):.4g}"))
    values |= {f"run {i}": run for i, run in enumerate(values.pop("runs"))}
    return "\n".join(f"{key}: {json.dumps(x, ensure_ascii=False)}" for key, x in values.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_sees(kind, folder, monkeypatch, capsys):
    """A line of JSON, the tables of a terminal, and the page."""
    folders = kind()
    compare(*folders)
    values = readable(capsys.readouterr().out)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    compare(*folders)
    page = golden.read((folder / "compare.html").read_text())
    shown = "\n\n".join([values, terminal.getvalue().replace("\u00a0", " "), page])
    golden.check(shown, __file__, kind.__name__)


def test_the_newest_result_is_read_or_that_of_a_set(capsys):
    runs = texts()
    compare(*runs)
    first = json.loads(capsys.readouterr().out)
    for run, nats in zip(runs, ("1", "2"), strict=True):
        outputs = {"text": ["x"], "nats": [nats]}
        scores = {"bits_per_character": float(nats) / 2 / math.log(2)}
        evaluated_runs.write_result(run, "val", {"text": ["x"]}, outputs, scores)
    compare(*runs)
    assert json.loads(capsys.readouterr().out)["set"] == "val"
    compare(*runs, "--config.compare.set=test")
    assert json.loads(capsys.readouterr().out) == first


def test_files_go_where_they_are_wanted(folder, capsys, monkeypatch):
    """Also if a workdir, which may be a stranger's, says otherwise."""
    folders = texts()
    values = json.loads((A / "config.json").read_text())
    (A / "config.json").write_text(json.dumps(values | {"compare": {"page": "strange.html"}}))
    compare(*folders)
    first, page = capsys.readouterr().out, (folder / "compare.html").read_bytes()
    (folder / "compare.html").unlink()
    compare(folders[0], "--config.compare.page=", folders[1])
    assert not [*folder.glob("*.html")]
    capsys.readouterr()
    monkeypatch.setenv("HOME", str(folder))
    compare(*folders, "--config.compare.page=~/some/where.html")
    again = json.loads(capsys.readouterr().out)
    assert again == json.loads(first) | {"page": "~/some/where.html"}  # the same numbers
    assert (folder / "some/where.html").read_bytes() == page


def damaged(name, pattern, text):
    """Replaces what is in a file of b's evaluation."""
    file = B / "evaluation" / f"test.{name}"
    return lambda: file.write_text(re.sub(pattern, text, file.read_text()))


def rewritten(**changes):
    return lambda: evaluated_runs.rewrite(B, lambda x: x | changes)


nothing = lambda: None
unevaluated = lambda: workdirs.write(C, log=workdirs.lines())
lacking = lambda: (A / "evaluation" / "test.hypothesis").unlink()
of_other_text = lambda: evaluated_runs.translations(C, REFERENCES, sources=SOURCES[::-1])
labelled = lambda: evaluated_runs.classifications(C, ["a"], ["a"])
diverged = lambda: [evaluated_runs.texts(x, ["a", "b"], [1.0, math.nan]) for x in (C, B / C)]
EVALUATE = r"python launch\.py --mode=evaluate --workdir="
WRONG_SCORE = r"damaged: bleu of the outputs in b/evaluation .*result says .*evaluate again"
REFUSED = [  # (what is done before, arguments, words of the one line)
    (nothing, "a nothing", r"nothing/config.json does not exist: expected the folder"),
    (nothing, "a b --config.compare.sentences=-1", r"sentences must be at least 0, found -1"),
    (nothing, "a b --config.compare.resamples=99", r"resamples must be at least 100, found 99"),
    (nothing, "a b --config.compare.set=c", r"set='c': a has been evaluated on test; .*SPLIT"),
    (nothing, "a b --config.compare.page=a", r"compare\.page: a is a folder, expected a file"),
    (nothing, "a b --config.compare.pages=c", r"did you mean --config\.compare\.page\?"),
    (unevaluated, "a c", rf"c has not been evaluated: {EVALUATE}c"),
    (damaged("hypothesis", r"[^\n]*\n\Z", ""), "a b", r"source 120, reference 120, hypothesis 119"),
    (damaged("source", "s1", "x"), "a b", rf"b/evaluation/test\.source.*checksum.*{EVALUATE}b"),
    (damaged("reference", "w1", "x"), "a b", rf"damaged: .*checksum.*{EVALUATE}b"),
    (damaged("json", r"\A[^$]*", ""), "a b", r"damaged: .*b/evaluation/test\.json.*not JSON"),
    (damaged("json", r"\A[^$]*", "[1]"), "a b", r"damaged: .*test\.json.*not a JSON object"),
    (damaged("json", r"\A[^$]*", '{"set": "test"}'), "a b", r"test\.json is not a result"),
    (of_other_text, "a c", rf"a and c .*different text.*checksum.*{EVALUATE}c.*set=SET"),
    (labelled, "a c", r"different tasks.*source, reference, hypothesis and text"),
    (rewritten(signature="nrefs:1|tok:char"), "a b", rf"13a and char.*{EVALUATE}b.*tokenize=13a"),
    (rewritten(signature="nrefs:1|tok:x"), "a b", r"damaged: 'nrefs:1\|tok:x' is not sacreBLEU's"),
    (lacking, "a b", r"a and b do not have the same files.*--workdir=a"),
    (diverged, "c b/c", r"bits_per_character of c is nan: a model that has diverged"),
    *((rewritten(bleu=x), "a b", WRONG_SCORE) for x in ("x", math.inf)),
]


@pytest.mark.parametrize(
    ("change", "arguments", "words"), REFUSED, ids=[words for *_, words in REFUSED]
)
def test_a_mistake_is_one_line(change, arguments, words):
    for run, share in ((A, 0.2), (B, 0.5)):
        evaluated_runs.translations(run, worse(REFERENCES, share))
    change()
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        launch.main(["--mode=compare", *arguments.split()])


@pytest.mark.slow
def test_a_browser_shows_it(folder):
    compare(*translations(), f"--config.compare.page={folder / 'x.html'}")
    assert (folder / "x.html").stat().st_size < 3e6
    with browser.chromium() as driver:
        for _ in browser.open_everywhere(driver, folder / "x.html"):
            assert driver.title == f"a and {LONG}"
