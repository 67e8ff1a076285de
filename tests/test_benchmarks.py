"""BLEU by sentence length: which sentences are in a bucket, and what is refused."""

import json
import sys

import pytest
from sacrebleu.metrics import BLEU

from benchmarks import bleu_by_length

REFERENCE = [" ".join(f"w{i + j}" for j in range(3 + i % 9)) for i in range(60)]


@pytest.fixture
def workdir(tmp_path):
    """Returns a function that writes an evaluated run, whose hypotheses lack some words."""

    def write(name, drop, source=REFERENCE):
        folder = tmp_path / name
        (folder / "evaluation").mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"evaluate": {"tokenize": "13a"}}))
        sides = {"source": source, "reference": REFERENCE}
        sides["hypothesis"] = [line.replace(f"w{drop}", "x") for line in REFERENCE]
        for side, lines in sides.items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / "evaluation" / f"test.{side}").write_text(text)
        return str(folder)

    return write


def run(monkeypatch, *arguments):
    options = ["--set=test", "--edges=5,8", "--resamples=50"]
    monkeypatch.setattr(sys, "argv", ["bleu_by_length", *options, *arguments])
    bleu_by_length.main()


def test_buckets_are_by_the_words_of_the_source():
    assert bleu_by_length.buckets([4, 5, 7, 8, 30, 1], [5, 8]) == {
        **{"-4": [0, 5], "5-7": [1, 2], "8-": [3, 4], "all": [0, 1, 2, 3, 4, 5]}
    }
    assert bleu_by_length.buckets([9], [5, 8]) == {"8-": [0], "all": [0]}  # no empty ones


def test_the_table_has_the_bleu_of_each_bucket(workdir, monkeypatch, capsys):
    first, second = workdir("first", 2), workdir("second", 1)
    run(monkeypatch, first, second)
    header, counts, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["words", "-4", "5-7", "8-", "all"]
    lengths = [len(line.split()) for line in REFERENCE]
    expected = [sum(n < 5 for n in lengths), sum(5 <= n < 8 for n in lengths)]
    assert list(map(int, counts.split()[1:3])) == expected
    output = bleu_by_length.read(bleu_by_length.Path(second), "test")
    score = BLEU().corpus_score(output["hypothesis"], [output["reference"]]).score
    assert [row.split()[0] for row in rows] == [first, second]
    assert float(rows[1].split()[-3]) == pytest.approx(score, abs=0.05)
    assert float(rows[1].split()[-1]) > 0


def test_runs_of_other_sentences_are_refused(workdir, monkeypatch):
    other = workdir("other", 2, source=REFERENCE[::-1])
    with pytest.raises(SystemExit, match=r"source sentences of .*other are not those of .*one"):
        run(monkeypatch, workdir("one", 2), other)
    with pytest.raises(SystemExit, match=r"test\.source is missing: evaluate the run first"):
        run(monkeypatch, other + "/nothing")
