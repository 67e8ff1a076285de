"""A vocabulary by its files: learnt from plain text, from either side, or both, and loaded."""

import pytest
from helpers.corpora import Source

from transformer.data import tokenizer, vocabulary
from transformer.errors import UserError

PAIR = ("source.model", "target.model")


class Pairs(Source):
    """English letters on one side, Greek ones on the other."""

    def __init__(self):
        super().__init__("vocabulary", count=300)
        greek = str.maketrans("abcdef", "αβγδεζ")
        self.pairs = [[source, target.translate(greek)] for source, target in self.pairs]


def learn(*names, **changes):
    options = {"kind": "bpe", "size": 290, "character_coverage": 1.0, "max_sentences": 0, "seed": 0}
    return vocabulary.learn(Pairs(), names, **{**options, "normalisation": "", **changes})


def letters(learnt):
    pieces = set(learnt.pieces(range(4 + 256, len(learnt))))
    return {letter for piece in pieces for letter in piece} - {"▁"}


@pytest.mark.parametrize(
    ("names", "source", "target"),
    [(["shared.model"], "abcdefαβγδεζ", "abcdefαβγδεζ"), (PAIR, "abcdef", "αβγδεζ")],
)
def test_a_shared_model_is_of_both_sides_and_two_models_are_of_one_each(names, source, target):
    loaded = vocabulary.load(learn(*names), "bpe")
    assert loaded.shared == (source == target)
    assert [letters(side) for side in loaded] == [set(source), set(target)]


def test_plain_text_has_one_model():
    loaded = vocabulary.load(learn("text.model"), "bpe")
    assert isinstance(loaded, tokenizer.Pieces)
    assert letters(loaded) == set("abcdef")


def test_a_kind_that_is_not_there_is_one_line():
    """As in a tree without the family that has it."""
    with pytest.raises(UserError, match=r"config\.vocabulary\.kind must be one of 'bpe', 'unig"):
        vocabulary.load({"text.words": b""}, "words")


def test_of_a_large_corpus_random_sentences_are_taken():
    """The seed chooses them; up to the limit it does not matter."""
    limits = [(100, 0), (100, 0), (100, 1), (0, 0), (600, 1)]
    contents = [learn("shared.model", max_sentences=most, seed=seed) for most, seed in limits]
    few, again, others, *all_sentences = (vocabulary.load(x, "bpe").fingerprint for x in contents)
    assert few == again
    assert all_sentences[0] == all_sentences[1]
    assert len({few, others, *all_sentences}) == 3
