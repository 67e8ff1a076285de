"""Attention weights against plain numpy, words of a text, and the resulting alignments."""

import json

import numpy as np
import pytest
from helpers import reversal
from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.families.scoring import align
from transformer.tasks import attention_weights, translation
from transformer.workdir import saved_config

WORDS = [
    ("", []),
    ("   ", []),
    ("a b c", [0, 1, 2]),
    ("ab c", [0, 0, 1]),
    ("abc", [0, 0, 0]),
    ("a  b   c", [0, 1, 2]),
    (" a b", [0, 1]),
    ("   a  bc d", [0, 1, 1, 2]),
    # An unseen character becomes its UTF-8 bytes, after a separate ▁ at a word's start.
    ("a나b c", [0, 0, 0, 0, 0, 1]),
    ("나 a", [0, 0, 0, 0, 1]),
    ("a 나b c", [0, 1, 1, 1, 1, 1, 2]),
    ("a\u3000b c", [0, 0, 0, 0, 1, 2]),  # a space of three bytes
    ("a🏠 b", [0, 0, 0, 0, 0, 1]),
]


def test_words_are_what_white_space_separates():
    for text, expected in WORDS:
        assert align.words(reversal.vocabulary().source, text) == expected
        assert len(expected) == len(reversal.ids([text])[0]) - 1


def test_words_of_any_text_count_its_words_in_order():
    random = np.random.default_rng(0)
    for _ in range(200):
        text = "".join(random.choice(list("abh  나🏠é"), random.integers(1, 12)))
        numbers = align.words(reversal.vocabulary().source, text)
        assert numbers == sorted(numbers)
        assert sorted(set(numbers)) == list(range(len(text.split())))


def options(layer=0, head=0):
    return ConfigDict({"layer": layer, "head": head})


def hand_made():
    """Weights [L, H, T, S] for 'ab c d' and 'e fg', with pieces a b c d </s> and e f g </s>."""
    cross_LHTS = np.zeros((2, 2, 4, 5), np.float32)
    cross_LHTS[0, 0] = [[9, 0, 0, 1, 0], [0, 0, 9, 1, 0], [0, 0, 9, 1, 0], [9, 9, 9, 9, 9]]
    cross_LHTS[0, 1] = [[0, 0, 0, 5, 0], [0, 0, 0, 5, 0], [0, 0, 0, 5, 0], [9, 9, 9, 9, 9]]
    # The pieces of a source word are summed: 3 + 3 > 4.
    cross_LHTS[1, 0] = [[3, 3, 4, 0, 0], [3, 3, 4, 0, 0], [0, 0, 5, 0, 90], [9, 9, 9, 9, 9]]
    # And those of a target word: 2 + 5 > 6.
    cross_LHTS[1, 1] = [[0, 0, 20, 0, 0], [0, 0, 6, 2, 0], [0, 0, 0, 5, 0], [9, 9, 9, 9, 9]]
    return cross_LHTS / 10


@pytest.mark.parametrize(
    ("layer", "head", "expected"),
    [
        (1, 1, [(0, 0), (1, 1)]),
        (1, 2, [(2, 0), (2, 1)]),
        (2, 1, [(0, 0), (1, 1)]),
        (2, 2, [(1, 0), (2, 1)]),
        (1, 0, [(0, 0), (1, 1)]),
        (0, 1, [(0, 0), (1, 1)]),
        (0, 0, [(1, 0), (1, 1)]),
    ],
)
def test_align(layer, head, expected):
    """Layer or head 0 is the mean of all; weights of the end symbols do not count."""
    vocabulary = reversal.vocabulary()
    found = align.alignment(vocabulary, "ab c d", "e fg", hand_made(), options(layer, head))
    assert found == expected


def test_a_tag_is_aligned_with_no_word():
    given = ("c d", "e fg", hand_made(), options(1, 1))  # row 0 attends to the tag most
    assert align.alignment(reversal.vocabulary(), *given, tag="ab") == [(1, 0), (0, 1)]


def test_empty_texts_have_no_alignment():
    assert align.alignment(reversal.vocabulary(), "", " ", np.ones((2, 2, 1, 1)), options()) == []


@pytest.mark.slow
def test_reversed_letters_are_aligned_with_themselves(reversal_run):
    """Measured: 94 of 100 of them."""
    config = saved_config.read_config(reversal_run)
    run = translation.load(config, reversal_run)
    right = letters = 0
    for source in reversal.sentences(10, seed=6000, shortest=3):
        target = reversal.reverse(source)
        cross = attention_weights.pair_weights(run, source, target)["cross"]
        pairs = align.alignment(run.vocabulary, source, target, cross, options())
        last = len(target.split()) - 1
        assert [t for _, t in pairs] == list(range(last + 1))
        right += sum(s == last - t for s, t in pairs)
        letters += last + 1
    assert right / letters > 0.75


LINES = ["a b c\tc b a", "\th", "d e  f g\tg f e d", "a " * 100 + "\tb", "a b\tb a"]


@pytest.fixture
def said(answered, reversal_run):
    """A function (lines, changed keys) -> the lines on standard output."""

    def answer(lines, **changes):
        content = "".join(f"{line}\n" for line in lines).encode()
        return answered("align", reversal_run, content, **changes).split("\n")[:-1]

    return answer


@pytest.mark.slow
def test_a_line_for_a_line(said, reversal_run, caplog):
    """An over-long pair has an empty one, because memory grows with the square of the length."""
    run = translation.load(saved_config.read_config(reversal_run), reversal_run)
    alignments = said(LINES)
    assert [line.count("-") for line in alignments] == [3, 0, 4, 0, 2]
    for number in (0, 1, 2, 4):
        both = LINES[number].split("\t")
        cross = attention_weights.pair_weights(run, *both)["cross"]
        pairs = align.alignment(run.vocabulary, *both, cross, options())
        assert alignments[number] == " ".join(f"{s}-{t}" for s, t in pairs)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [w.partition(":")[0] for w in warnings if w.startswith("line")] == ["line 4"]
    asked = {"source": "a b c", "target": "c b a", "id": [1, None]}
    [line] = said([json.dumps(asked)], **{"translate.format": "json"})
    assert json.loads(line) == {**asked, "alignment": alignments[0]}
    with pytest.raises(UserError, match=r"\Aline 2: expected SOURCE<tab>TARGET, found 'a'\Z"):
        said(["a\tb", "a"])


@pytest.mark.slow
def test_a_layer_or_head_that_is_not_there_is_said_in_a_line(said, monkeypatch):
    """Before anything is compiled."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    for key, value, most in (("layer", 2, 1), ("layer", -1, 1), ("head", 3, 2), ("head", -1, 2)):
        right = f"must be at least 0 and at most {most}, found {value}"
        with pytest.raises(UserError, match=rf"\Aconfig\.attention\.{key} {right}\Z"):
            said(LINES, **{f"attention.{key}": value})
