"""Attention weights against plain numpy, words of a text, and the resulting alignments."""

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import reversal
from ml_collections import ConfigDict

from transformer.modes import align
from transformer.tasks import attention_weights, translation
from transformer.workdir import saved_config

ROOT = Path(__file__).resolve().parents[2]

WEIGHTS = ("encoder", "decoder", "cross")


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   ", []),
        ("a", [0]),
        ("a b c", [0, 1, 2]),
        ("ab c", [0, 0, 1]),
        ("abc", [0, 0, 0]),
        ("a  b   c", [0, 1, 2]),
        ("a b  ", [0, 1]),
        (" a", [0]),
        (" a b", [0, 1]),
        ("   a  bc d", [0, 1, 1, 2]),
        # An unseen character becomes its UTF-8 bytes, after a separate ▁ at a word's start.
        ("a나b c", [0, 0, 0, 0, 0, 1]),
        ("나 a", [0, 0, 0, 0, 1]),
        ("  나 a", [0, 0, 0, 0, 1]),
        ("a 나b c", [0, 1, 1, 1, 1, 1, 2]),
        ("a\u3000b c", [0, 0, 0, 0, 1, 2]),  # a space of three bytes
        ("a🏠 b", [0, 0, 0, 0, 0, 1]),
    ],
)
def test_words_are_what_white_space_separates(text, expected):
    assert align.words(reversal.vocabulary().source, text) == expected
    assert len(expected) == len(reversal.ids([text])[0]) - 1


def test_words_of_any_text_count_its_words_in_order():
    random = np.random.default_rng(0)
    for _ in range(200):
        text = "".join(random.choice(list("abh  나🏠é"), random.integers(1, 12)))
        numbers = align.words(reversal.vocabulary().source, text)
        assert numbers == sorted(numbers)
        assert sorted(set(numbers)) == list(range(len(text.split())))


# Alignments


def options(layer=0, head=0):
    return ConfigDict({"layer": layer, "head": head, "pairs": 100})


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
        (2, 0, [(1, 0), (1, 1)]),
        (0, 1, [(0, 0), (1, 1)]),
        (0, 2, [(1, 0), (2, 1)]),
        (0, 0, [(1, 0), (1, 1)]),
    ],
)
def test_align(layer, head, expected):
    """Layer or head 0 is the mean of all; weights of the end symbols do not count."""
    vocabulary = reversal.vocabulary()
    found = align.alignment(vocabulary, "ab c d", "e fg", hand_made(), options(layer, head))
    assert found == expected


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


# Standard input to standard output


LINES = ["a b c\tc b a", "\th", "d e  f g\tg f e d"]


@pytest.fixture
def copied(reversal_run, tmp_path):
    """A writable copy of the workdir."""
    return shutil.copytree(reversal_run, tmp_path / "copy")


@pytest.fixture
def said(answered, copied):
    """A function (lines, changed keys) -> the lines on standard output."""

    def answer(lines, **changes):
        content = "".join(f"{line}\n" for line in lines).encode()
        return answered("align", copied, content, **changes).split("\n")[:-1]

    return answer


@pytest.mark.slow
def test_lines_out_and_weights_in_a_file(copied):
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "launch.py", "--mode=align", f"--workdir={copied}"),
            "--config.attention.pairs=2",
        ],
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    config = saved_config.read_config(copied)
    run = translation.load(config, copied)
    with np.load(copied / "attention.npz") as file:
        kept = dict(file)
    names = {*WEIGHTS, "source", "target"}
    assert kept.keys() == {f"{number}/{name}" for number in (0, 1) for name in names}
    lines = done.stdout.split("\n")
    assert len(lines) == 4
    for number, line in enumerate(LINES):
        source, target = line.split("\t")
        weights = attention_weights.pair_weights(run, source, target)
        pairs = align.alignment(run.vocabulary, source, target, weights["cross"], options())
        assert lines[number] == " ".join(f"{s}-{t}" for s, t in pairs)
        if number < 2:
            for name in WEIGHTS:
                np.testing.assert_allclose(kept[f"{number}/{name}"], weights[name], atol=1e-5)
            for name in ("source", "target"):
                assert kept[f"{number}/{name}"].tolist() == weights[name].tolist()
    assert lines[1] == ""
    assert lines[2].count("-") == 4
    assert str(copied / "attention.npz") in done.stderr


@pytest.mark.slow
def test_an_over_long_pair_has_an_empty_line(said, copied, caplog):
    """Because memory grows with the square of the length."""
    over = "a " * 100
    assert said([f"{over}\tb", "a b\tb a", f"a\t{over}"])[::2] == ["", ""]
    with np.load(copied / "attention.npz") as file:
        assert {name.partition("/")[0] for name in file.files} == {"1"}
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [w.partition(":")[0] for w in warnings if w.startswith("line")] == ["line 1", "line 3"]


@pytest.mark.slow
def test_json_in_and_out(said):
    asked = {"source": "a b c", "target": "c b a", "id": [1, None]}
    [line] = said([json.dumps(asked)], **{"translate.format": "json"})
    [text] = said(["a b c\tc b a"])
    assert json.loads(line) == {**asked, "alignment": text}
    assert text.count("-") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("attention.layer", 2, "at least 0 and at most 1"),
        ("attention.layer", -1, "at least 0 and at most 1"),
        ("attention.head", 3, "at least 0 and at most 2"),
        ("attention.head", -1, "at least 0 and at most 2"),
        ("evaluate.ensemble", "runs/other", "empty"),
    ],
)
def test_mistakes_are_said_in_a_line(said, copied, monkeypatch, key, value, right):
    """Before anything is compiled or written."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    with pytest.raises(ValueError, match=rf"\A[^\n]*config.{key}[^\n]*\Z") as error:
        said(LINES, **{key: value})
    assert right in str(error.value)
    assert not (copied / "attention.npz").exists()


@pytest.mark.slow
def test_a_line_without_a_target(said):
    with pytest.raises(ValueError, match=r"\Aline 2: expected SOURCE<tab>TARGET, found 'a'\Z"):
        said(["a\tb", "a"])
