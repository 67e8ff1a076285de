"""Scores by length: which sentences are in a bucket."""

import pytest

from transformer.tools.pages import lengths


def words(lengths):
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
    assert lengths.buckets(["我喜欢苹果", "你好"]) == ("characters", {"≤5": [0, 1], "all": [0, 1]})
