"""Trees: their text, the symbols that a model writes, and a tree of any symbols."""

import gzip
import random

import pytest
from families.parsing import generated

from transformer.errors import UserError
from transformer.families.parsing import treebank, trees

TEXT = (
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ is) (VP (VBN seen) (NP=2 (-NONE- *-1)))) (. .)) )"
)
SYMBOLS = "(S (NP DT NN )NP (VP VBZ (VP VBN )VP )VP . )S"
CLEAN = "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ is) (VP (VBN seen))) (. .)))"


def test_a_tree_by_hand():
    """Without function tags and traces; punctuation is a word."""
    tree = trees.from_text(TEXT)
    assert " ".join(trees.symbols(tree)) == SYMBOLS
    assert trees.to_text(tree) == CLEAN
    assert tree.constituents[1] == ("NP", 0, 2)


def test_text_and_symbols_lose_nothing():
    chosen = random.Random(0)
    for _ in range(200):
        tree = trees.from_text(generated.tree(chosen))
        assert trees.from_text(trees.to_text(tree)) == tree
        assert trees.repaired(trees.symbols(tree), tree.words) == tree
        assert tuple(trees.words_of(" ".join(tree.words))) == tree.words


def test_any_symbols_give_a_tree_of_exactly_the_words():
    chosen = random.Random(0)
    for _ in range(400):
        words = chosen.choices(["cat", "(", "b)c", "-", "é"], k=chosen.randint(0, 9))
        symbols = chosen.choices(["NN", "(NP", ")NP", "(S", ")S", ")", "(", "?"], k=30)
        text = trees.to_text(trees.repaired(symbols, words))
        assert list(trees.from_text(text).words) == words
        assert text == trees.to_text(trees.repaired(symbols, words))


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        ("(S (NP A )NP (VP B", "(TOP (S (NP (A a)) (VP (B b))) (XX c))"),  # 2 closes, 1 tag
        ("(S (NP A )S B C", "(TOP (S (NP (A a))) (B b) (C c))"),  # )NP before )S
        (")S (S A )VP B C )S )S", "(TOP (S (A a) (B b) (C c)))"),  # closes too many
        ("(S A B C (NP D )NP )S", "(TOP (S (A a) (B b) (C c)))"),  # a word too many
        ("", "(TOP (XX a) (XX b) (XX c))"),
        ("(S " * 5000 + "A", "(TOP " + "(S " * 5000 + "(A a)" + ")" * 5000 + " (XX b) (XX c))"),
    ],
)
def test_a_repair_by_hand(symbols, expected):
    assert trees.to_text(trees.repaired(symbols.split(), "abc")) == expected


def test_a_treebank_has_trees_of_several_lines_or_one(tmp_path):
    over_lines = TEXT.replace(" (VP", "\n    (VP")
    (tmp_path / "a.mrg").write_text(f"\n{over_lines}\n\n{over_lines}\n")
    (tmp_path / "b.trees.gz").write_bytes(gzip.compress(f"{TEXT}\n".encode() * 4))
    corpus = treebank.load("a.mrg, b.trees[50%:]", directory=str(tmp_path), key="key")
    assert corpus.read() == (["The cat is seen ."] * 4, [SYMBOLS] * 4)
    assert [trees.to_text(tree) for tree in corpus.trees] == [CLEAN] * 4


@pytest.mark.parametrize(
    ("content", "split", "message"),
    [
        (f"{TEXT}\n(S (NN a)\n", "x", r".*x, line 2: expected one tree in balanced .* '\(S \(NN a"),
        (f"{TEXT}\n\n(NN a))\n", "x", r".*x, line 3: expected one tree"),
        ("(S (NN a b))", "x", r".*x, line 1: expected one tree"),
        ("(S (NN a)) (S (NN b))", "x", r".*x, line 1: expected one tree"),
        ("a b", "x", r".*x, line 1: expected one tree"),
        ("\n\n", "x", r"key='x': there is no tree in .*x"),
        (TEXT, "x[:50% of characters]", r"key='x\[.*\]': a treebank can be cut between lines only"),
    ],
)
def test_a_file_that_is_no_treebank_is_refused(content, split, message, tmp_path):
    (tmp_path / "x").write_text(content)
    with pytest.raises(UserError, match=message):
        treebank.load(split, directory=str(tmp_path), key="key")
