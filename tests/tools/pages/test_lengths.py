"""BLEU by length: which sentences are in a bucket, and their score."""

import pytest
from helpers import workdirs
from sacrebleu.metrics import BLEU

from transformer.tools.pages import lengths
from transformer.tools.pages.measures import Interval


def test_buckets_are_by_the_words_of_the_source():
    assert lengths.buckets([4, 5, 7, 8, 30, 1], [5, 8, 9]) == {
        **{"≤4": [0, 5], "5–7": [1, 2], "8": [3], "≥9": [4], "all": [0, 1, 2, 3, 4, 5]}
    }
    assert lengths.buckets([9], [5, 8]) == {"≥8": [0], "all": [0]}  # no empty ones


def test_edges_make_narrow_buckets_of_the_shortest_and_longest():
    numbers = [1 + i % 40 for i in range(1000)]
    rows = lengths.buckets(numbers, lengths.edges(numbers))
    assert [len(x) for x in rows.values()] == [100, 200, 200, 200, 150, 100, 50, 1000]


@pytest.mark.parametrize("count", [1, 30, 60, 200])
def test_few_sentences_have_few_buckets(count):
    numbers = [1 + i % 13 for i in range(count)]
    rows = lengths.buckets(numbers, lengths.edges(numbers))
    assert min(map(len, rows.values())) >= min(count, lengths.FEWEST)


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
    assert not lengths.plot("", "", dict.fromkeys("abcde", scores["a"]), {"≤4": 5}).description
    assert plot.table.rows[1] == ["all", 5, 8.0, 7.0, 9.0, 2.0, 1.0, 3.0]


def test_sentences_of_one_length_are_one_bucket():
    assert lengths.buckets([4] * 5, lengths.edges([4] * 5)) == {
        "≤4": [*range(5)],
        "all": [*range(5)],
    }


def test_a_script_without_spaces_is_counted_in_characters():
    assert lengths.length_of(["나는 사과를 좋아해", "나는 가"]) == ("words", [3, 2])
    assert lengths.length_of(["我喜欢苹果", "你好"]) == ("characters", [5, 2])


def test_each_bucket_has_the_bleu_of_its_sentences(tmp_path):
    this = workdirs.translated(tmp_path)
    section = lengths.section(this)
    bleu = section.parts[1]
    sources, hypotheses, references = this.evaluations[-1].columns(*workdirs.SIDES)
    counts = [len(source.split()) for source in sources]
    rows = lengths.buckets(counts, lengths.edges(counts))
    assert [row[0] for row in bleu.table.rows] == list(rows)
    for (_, count, score, *_), chosen in zip(bleu.table.rows, rows.values(), strict=True):
        sides = ([side[i] for i in chosen] for side in (hypotheses, references))
        first, second = sides
        assert (count, score) == (
            len(chosen),
            pytest.approx(BLEU().corpus_score(first, [second]).score),
        )
    shown = {row["length"]: row["score"] for row in bleu.spec["data"]["values"]}
    assert shown == {row[0]: row[2] for row in bleu.table.rows[:-1]}
