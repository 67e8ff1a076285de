"""Results are printed and saved, and never replace those of another test set."""

import json
import sys

import pytest

from transformer.workdir import log, results
from transformer.workdir.log import Log, read


@pytest.mark.parametrize(
    ("split", "files", "name"),
    [
        ("test", [], "test"),
        ("test", ["/x/test_2016_flickr.en", "/x/test_2016_flickr.de.gz"], "test_2016_flickr"),
        ("test", ["a/news.src.en", "b/news.ref.de"], "news.src-news.ref"),
        ("a,b", ["안녕 x.ko", "안녕 x.en.xz"], "안녕_x"),
        ("../../x", [], ".._.._x"),
        ("test", ["n" * 240 + ".de", "n" * 240 + ".en"], "n" * 64),
    ],
)
def test_a_set_is_named_by_its_files_or_its_split(split, files, name):
    assert results.name_of(split, files) == name


RESULT = {
    **dict.fromkeys(("bleu", "chrf", "length_ratio", "loss", "perplexity", "accuracy"), 0.5),
    **{"split": "test", "step": 7, "steps": [5, 7], "weights": "average", "signature": "tok:13a"},
    **{"sentences": 1, "ensemble": "", "decode": {"beam_width": 4}},
}


def saved(workdir, source, hypothesis, **changes):
    """Saves the result of a set of one sentence, and returns it."""
    dataset = {"source": [source], "reference": ["r"]}
    name = results.free_name(workdir, "test", dataset)
    result = {**RESULT, "set": name, "checksum": results.checksum(dataset)}
    results.keep(workdir, result, {**dataset, "hypothesis": [hypothesis]}, **changes)
    return result


def test_no_result_replaces_another_set_s(tmp_path):
    """Neither in evaluation/ nor in evaluations.jsonl, even after a line that was cut off."""
    saved_results = [saved(tmp_path, "a", "x"), saved(tmp_path, "b", "y")]
    with open(tmp_path / "evaluations.jsonl", "a") as file:
        file.write('{"bleu')
    saved_results += [saved(tmp_path, "a", "z"), saved(tmp_path, "b", "y")]
    names = ["test", f"test-{saved_results[1]['checksum'][:16]}"]
    assert [result["set"] for result in saved_results] == names * 2
    assert log.read(tmp_path, "evaluations.jsonl") == saved_results
    for result, sides in ((saved_results[2], ["a", "z", "r"]), (saved_results[3], ["b", "y", "r"])):
        texts = [
            (tmp_path / "evaluation" / f"{result['set']}.{side}").read_text()
            for side in ("source", "hypothesis", "reference")
        ]
        assert texts == [f"{text}\n" for text in sides]
        assert json.loads((tmp_path / "evaluation" / f"{result['set']}.json").read_text()) == result


def test_a_run_s_own_result_is_added_once(tmp_path):
    first = saved(tmp_path, "a", "x", once=True)
    saved(tmp_path, "a", "x", once=True)
    assert log.read(tmp_path, "evaluations.jsonl") == [first]
    saved(tmp_path, "b", "x", once=True)
    assert len(log.read(tmp_path, "evaluations.jsonl")) == 2


def test_a_final_score_is_one_line_of_metrics(tmp_path):
    """Of the step of the params that were scored, whatever step the run has reached; not of kind
    'validation', whose lines early stopping counts.
    """
    log = Log(tmp_path, 0)
    log.write("validation", 9, {"bleu": 2.0})
    log.close()
    for step, split, kind in ((9, "test", "test"), (12, "validation", "final_validation")):
        for _ in range(2):
            results.log_final(tmp_path, step, {**RESULT, "split": split})
        lines = [(line["kind"], line["step"], line["bleu"]) for line in read(tmp_path)]
        assert lines == [("validation", 9, 2.0), (kind, RESULT["step"], 0.5)]


def test_a_terminal_gets_a_table_and_a_file_a_line(monkeypatch, capsys):
    result = {**RESULT, "set": "test_2016_flickr", "bleu": 38.714}
    rows = {"BLEU": "38.71 (tok:13a)", "chrF": "0.50"}
    results.show(result, rows)
    assert json.loads(capsys.readouterr().out) == result
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    results.show(result, rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "set           test_2016_flickr",
        "BLEU          38.71 (tok:13a)",
        "chrF          0.50",
    ]
