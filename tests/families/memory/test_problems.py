"""Items of copying and recall, and the arrays of a batch."""

import numpy as np
import pytest

from transformer.families.memory import problems
from transformer.families.memory.problems import FIRST_SYMBOL, PROBLEMS, SEPARATOR

SYMBOLS = 9


def row_length(name, length):
    return problems.row_length(PROBLEMS[name], length, SYMBOLS)


def drawn(name, length, seed=0):
    return PROBLEMS[name].draw(np.random.default_rng(seed), length, SYMBOLS)


@pytest.mark.parametrize("length", [2, 7, 40])
def test_copying_is_a_sequence_a_separator_and_the_sequence(length):
    tokens, answers = drawn("copy", length)
    assert tokens.tolist() == [*answers, SEPARATOR, *answers[:-1]]
    assert len(tokens) == row_length("copy", length) == 2 * length
    assert len(answers) == length
    assert {*drawn("copy", 400)[1]} == {*range(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS)}


@pytest.mark.parametrize("length", [2, 13, 18, 50])
def test_each_query_of_recall_is_answered_by_the_value_of_its_key(length):
    """Of 25 pairs of 9 keys, all keys are there, and some of them several times."""
    pairs, known = length // 2, min(length // 2, SYMBOLS)
    for seed in range(20):
        tokens, answers = drawn("recall", length, seed)
        assert len(tokens) == row_length("recall", length) == 2 * pairs + known
        keys, values = (tokens[i : 2 * pairs : 2].tolist() for i in (0, 1))
        value_of = dict(zip(keys, values, strict=True))
        assert [value_of[key] for key in keys] == values  # a key has one value in an item
        assert len(value_of) == known
        queries = tokens[2 * pairs :].tolist()
        assert sorted(queries) == sorted(value_of)
        assert answers.tolist() == [value_of[key] for key in queries]
        assert all(0 <= key - FIRST_SYMBOL < SYMBOLS for key in keys)
        assert all(0 <= value - FIRST_SYMBOL - SYMBOLS < SYMBOLS for value in values)


def test_nothing_but_the_pairs_tells_an_answer():
    """Values repeat, queries and repeated keys are in any order, a key's value is another's."""
    items = [drawn("recall", 18, seed) for seed in range(60)]
    assert any(len({*answers.tolist()}) < 9 for _, answers in items)
    assert {tokens[:18:2].tolist().index(tokens[18]) for tokens, _ in items} == {*range(9)}
    assert len({int(answers[0]) for tokens, answers in items if tokens[18] == 5}) > 1
    repeated = [drawn("recall", 20, seed)[0][:20:2].tolist() for seed in range(60)]
    again = [i for keys in repeated for i, key in enumerate(keys) if key in keys[:i]]
    assert {*again} == {*range(1, 10)}


def test_a_batch_has_an_item_a_row():
    """Copying 7 8, as the docstring has it; a row without an item, and a longer one."""
    items = {3: ([7, 8, SEPARATOR, 7], [7, 8]), 5: ([9, SEPARATOR], [9])}
    draw = lambda seed, t, i: tuple(map(np.array, items[i]))
    batch = problems.assemble(draw, np.array([3, 5]), np.array([0, 2]), (3, 5), (0, 1))
    assert batch["inputs"]["tokens"].tolist() == [[7, 8, 1, 7, 0], [0] * 5, [9, 1, 0, 0, 0]]
    assert batch["inputs"]["positions"].tolist() == [[0, 1, 2, 3, 0], [0] * 5, [0, 1, 0, 0, 0]]
    assert batch["inputs"]["segments"].tolist() == [[1, 1, 1, 1, 0], [0] * 5, [1, 1, 0, 0, 0]]
    assert batch["targets"].tolist() == [[0, 0, 7, 8, 0], [0] * 5, [0, 9, 0, 0, 0]]
    assert batch["weights"].tolist() == [[0, 0, 1, 1, 0], [0] * 5, [0, 1, 0, 0, 0]]


def test_items_as_text():
    names = lambda name, ids: problems.text(np.array(ids), PROBLEMS[name], SYMBOLS)
    assert names("copy", [2, 10, SEPARATOR, 2, 0]) == "0 8 | 0 _"
    assert names("recall", [2, 11, 10, 19, 10]) == "k0 v0 k8 v8 k8"
