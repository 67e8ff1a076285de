"""Which result is read, and one line for whatever keeps two runs from being compared."""

import pytest
from tools.pages import evaluated_runs, workdirs
from tools.pages.evaluated_runs import REFERENCES, SOURCES, read, worse

from transformer.errors import UserError
from transformer.tools.pages import evaluated


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


def test_a_file_of_fewer_lines(pair):
    file = pair[1] / "evaluation" / "test.hypothesis"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    counts = "source 120, reference 120, hypothesis 119"
    refused(lambda: check(*pair), f"damaged: the files {file.with_suffix('')}.* have", counts)


@pytest.mark.parametrize("side", ["source", "reference"])
def test_a_changed_test_set(pair, side):
    file = pair[1] / "evaluation" / f"test.{side}"
    file.write_text(file.read_text().replace("w1", "x").replace("s1", "x"))
    refused(lambda: read(pair[1]), "checksum", f"--mode=evaluate --workdir={pair[1]}")


@pytest.mark.parametrize("content", ["", "[1]", '{"set": "test"}', "\xff"])
def test_a_damaged_result(pair, content):
    file = pair[1] / "evaluation" / "test.json"
    file.write_text(content)
    refused(lambda: read(pair[1]), f"damaged: {file}", "evaluate ")


def test_other_text(pair, tmp_path):
    other = evaluated_runs.translations(tmp_path / "other", REFERENCES, sources=SOURCES[::-1])
    refused(
        lambda: check(pair[0], other),
        *(str(pair[0]), str(other), "different text", "set test, checksum"),
        f"--mode=evaluate --workdir={other} --config.evaluate.split=test",
    )
    elsewhere = evaluated_runs.translations(
        tmp_path / "more", REFERENCES, sources=SOURCES[::-1], data__directory="more text"
    )
    split = "--config.evaluate.split=test"
    refused(lambda: check(elsewhere, pair[0]), f"{split} --config.data.directory='more text'")
    dataset = {"source": SOURCES, "reference": REFERENCES}
    outputs = {**dataset, "hypothesis": SOURCES}
    evaluated_runs.write_result(other, "both", dataset, outputs, {})
    evaluated_runs.write_result(pair[0], "both", dataset, outputs, {})
    empty = {"source": [], "reference": []}
    evaluated_runs.write_result(pair[0], "mine", empty, {**empty, "hypothesis": []}, {})
    refused(
        lambda: check(pair[0], other), "Both have been evaluated on both: --config.compare.set=b"
    )


def test_other_tasks(pair, tmp_path):
    labelled = evaluated_runs.classifications(tmp_path / "other", ["a"], ["a"])
    words = "different tasks", "source, reference, hypothesis and text"
    refused(lambda: check(pair[0], labelled), *words)


def test_another_tokenizer(pair):
    change = lambda x: x | {"signature": x["signature"].replace("13a", "char")}
    evaluated_runs.rewrite(pair[1], change)
    refused(lambda: check(*pair), "13a and char", "--config.evaluate.tokenize=13a")


def test_outputs_that_one_run_lacks(pair):
    (pair[0] / "evaluation" / "test.hypothesis").unlink()
    assert read(pair[0]).sides == {}
    refused(lambda: check(*pair), "do not have the same files", f"--workdir={pair[0]}")
