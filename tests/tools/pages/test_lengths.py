"""BLEU by length: which sentences are in a bucket, and their score."""

import pytest
from sacrebleu.metrics import BLEU
from tools.pages import workdirs

from transformer.tools.pages import lengths
from transformer.tools.pages.measures import Interval


def words(lengths):
    """Sources of these lengths."""
    return ["w " * length for length in lengths]


def test_edges_make_narrow_buckets_of_the_shortest_and_longest():
    assert lengths.bucket_names([5, 8, 9]) == ["≤4", "5–7", "8", "≥9"]
    numbers = [1 + i % 40 for i in range(1000)]
    unit, rows = lengths.buckets(words(numbers))
    assert unit == "words"
    assert [len(x) for x in rows.values()] == [100, 200, 200, 200, 150, 100, 50, 1000]
    assert list(rows)[:2] == ["≤4", "5–12"]
    assert {numbers[i] for i in rows["5–12"]} == {*range(5, 13)}


@pytest.mark.parametrize("count", [1, 30, 60, 200])
def test_few_sentences_have_few_buckets(count):
    _, rows = lengths.buckets(words([2 + i % 13 for i in range(count)]))
    assert min(map(len, rows.values())) >= min(count, lengths.MIN_SENTENCES)


def test_a_script_without_spaces_is_counted_in_characters():
    assert lengths.buckets(["나는 사과를 좋아해", "나는 가"])[0] == "words"
    expected = {"≤5": [0, 1], "all": [0, 1]}
    assert lengths.buckets(["我喜欢苹果", "你好"]) == ("characters", expected)


def test_several_runs_have_a_line_each():
    scores = {
        "a": {"≤4": Interval(9.0, 7.0, 11.5), "all": Interval(8.0, 7.0, 9.0)},
        "b": {"≤4": Interval(1.0, 0.0, 3.0), "all": Interval(2.0, 1.0, 3.0)},
    }
    plot = lengths.plot("BLEU", "words", scores, {"≤4": 5, "all": 5})
    rows = plot.spec["data"]["values"]
    assert [(row["run"], row["low"], row["high"]) for row in rows] == [("a", 7, 11.5), ("b", 0, 3)]
    assert plot.table.columns == ["words", "sentences", "a", "low", "high", "b", "low", "high"]
    assert plot.description.startswith("a: 9.0 for the shortest")
    many = dict.fromkeys("abcde", scores["a"])
    assert not lengths.plot("", "", many, {"≤4": 5}).description
    assert plot.table.rows[1] == ["all", 5, 8.0, 7.0, 9.0, 2.0, 1.0, 3.0]


def test_each_bucket_has_the_bleu_of_its_sentences(tmp_path):
    run = workdirs.translated(tmp_path)
    _, bleu, _ = lengths.section(run).parts
    sources, *sides = run.evaluations[-1].columns("input", "output", "reference")
    _, rows = lengths.buckets(sources)
    assert [row[0] for row in bleu.table.rows] == list(rows)
    for (_, count, score, *_), lines in zip(bleu.table.rows, rows.values(), strict=True):
        hypotheses, references = ([side[i] for i in lines] for side in sides)
        assert count == len(lines)
        assert score == pytest.approx(BLEU().corpus_score(hypotheses, [references]).score)
    shown = {row["length"]: row["score"] for row in bleu.spec["data"]["values"]}
    assert shown == {row[0]: row[2] for row in bleu.table.rows[:-1]}
