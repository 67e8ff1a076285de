"""Which result is read, and one line for whatever keeps two runs from being compared."""

import re

import pytest
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, SOURCES, read, worse
from tools.pages import workdirs

from transformer.errors import UserError
from transformer.tools.compare import evaluated


def check(*folders):
    evaluated.check_same([read(folder) for folder in folders])


@pytest.fixture
def pair(tmp_path):
    """Two runs on one test set."""
    return [
        evaluated_runs.translations(tmp_path / name, worse(REFERENCES, share))
        for name, share in (("first", 0.2), ("second", 0.5))
    ]


def refused(call, *words):
    with pytest.raises(UserError) as error:
        call()
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_the_newest_result_is_read(pair, tmp_path):
    short = {"source": SOURCES[:50], "reference": REFERENCES[:50]}
    evaluated_runs.write_result(pair[0], "val", short, {**short, "hypothesis": SOURCES[:50]}, {})
    assert read(pair[0]).result["set"] == "val"
    assert len(read(pair[0]).sides["output"]) == 50
    before = read(pair[0], "test")
    assert before.dataset() == {"source": SOURCES, "reference": REFERENCES}
    assert before.sides["output"] == worse(REFERENCES, 0.2)
    again = {"source": SOURCES, "reference": REFERENCES}
    evaluated_runs.write_result(pair[0], "test", again, {**again, "hypothesis": SOURCES}, {})
    assert read(pair[0], "test").sides["output"] == SOURCES
    refused(lambda: check(*pair), "first", "second")
    refused(lambda: read(pair[0], "tset"), "config.compare.set='tset'", "on val, test;")


def test_equal_sets_can_be_compared(pair, tmp_path):
    check(*pair)
    check(*reversed(pair))
    folder = workdirs.write(tmp_path / "run", log=workdirs.lines())
    command = f"python launch.py --mode=evaluate --workdir={folder}"
    refused(lambda: read(folder), f"{folder} has not been evaluated: {command}")


FEWER = "source 120, reference 120, hypothesis 119"
DAMAGE = [  # (file, what is replaced, by what, words of the message)
    ("hypothesis", r"[^\n]*\n\Z", "", FEWER),
    ("source", "s1", "x", "checksum"),
    ("reference", "w1", "x", "checksum"),
    ("json", r"\A[^$]*", "", "not JSON"),
    ("json", r"\A[^$]*", "[1]", "not a JSON object"),
    ("json", r"\A[^$]*", '{"set": "test"}', "not a result"),
]


@pytest.mark.parametrize(("name", "pattern", "text", "words"), DAMAGE)
def test_damage(pair, name, pattern, text, words):
    file = pair[1] / "evaluation" / f"test.{name}"
    file.write_text(re.sub(pattern, text, file.read_text()))
    refused(lambda: read(pair[1]), "damaged", str(file.with_suffix("")), words)


def test_what_keeps_runs_from_being_compared(pair, tmp_path):
    other = evaluated_runs.translations(tmp_path / "other", REFERENCES, sources=SOURCES[::-1])
    words = "different text", "set test, checksum", f"--mode=evaluate --workdir={other}"
    refused(lambda: check(pair[0], other), str(pair[0]), *words, "--config.compare.set=SET")
    labelled = evaluated_runs.classifications(tmp_path / "labelled", ["a"], ["a"])
    words = "different tasks", "source, reference, hypothesis and text"
    refused(lambda: check(pair[0], labelled), *words)
    change = lambda x: x | {"signature": x["signature"].replace("13a", "char")}
    evaluated_runs.rewrite(pair[1], change)
    refused(lambda: check(*pair), "13a and char", "--config.evaluate.tokenize=13a")


def test_outputs_that_one_run_lacks(pair):
    (pair[0] / "evaluation" / "test.hypothesis").unlink()
    assert read(pair[0]).sides == {}
    refused(lambda: check(*pair), "do not have the same files", f"--workdir={pair[0]}")
