"""Each fault, planted at random lines of a clean corpus, is found there and nowhere else."""

import random

import numpy as np
import pytest
from tools.audit import parallel

from transformer.tools.audit import faults


def found(pairs, **options):
    sides = parallel.scanned(pairs, **options)
    masks, *_ = faults.pair_faults(*sides, options.get("max_length", 128))
    assert {*masks} == {*faults.FAULTS} - {"overlap", *faults.OF_OTHER_SPLITS}
    return lines_of(masks)


def lines_of(masks):
    return {name: np.flatnonzero(mask).tolist() for name, mask in masks.items() if mask.any()}


CYRILLIC = {ord("a") + i: chr(ord("а") + i) for i in range(26)}
PLANTED = {
    "blank": lambda pair: pair.__setitem__(1, " \u3000"),
    "broken": lambda pair: pair.__setitem__(0, pair[0] + " gr\ufffdn"),
    "invisible": lambda pair: pair.__setitem__(0, "\u200b" + pair[0]),
    "script": lambda pair: pair.__setitem__(1, pair[1].translate(CYRILLIC)),
    "tags": lambda pair: pair.__setitem__(0, pair[0] + "<br />"),
    "entities": lambda pair: pair.__setitem__(1, pair[1] + " &quot;"),
    "copied": lambda pair: pair.__setitem__(0, pair[1].upper()),
    "length": lambda pair: pair.__setitem__(1, (pair[1] + " ") * 4),
    "": lambda pair: None,  # a clean corpus has no fault
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_where_it_is(fault):
    pairs = [pair for pair in parallel.pairs(2000, 1) if len(pair[0]) > 40]
    planted = sorted(random.Random(fault).sample(range(len(pairs)), 7))
    for number in planted:
        PLANTED[fault](pairs[number])
    assert found(pairs) == ({fault: planted} if fault else {})


ENGLISH = (
    ["Wo bin ich?", "Where am I?"],
    ["Ich habe keine Zeit.", "I have no time."],
    ["Das ist mein Hund.", "That is my dog."],
    ["Tom adores me.", "Tom adores me!"],  # names are evidence for no language
    ["Er hat gestern ein Buch gekauft.", "He bought a book yesterday."],
    ["Zwei Männer spielen im Park Fußball.", "Two men are playing soccer in the park."],
    ["Die Kinder sind schon in der Schule.", "The children are at school already."],
)


@pytest.mark.parametrize(
    ("number", "pair", "fault"),
    [
        *[(i, ENGLISH[i][::-1], "swapped") for i in (0, 1, 2, 4, 5, 6)],
        (1, ["I have no time.", "I have none of it."], "language"),
        (4, ["Il a acheté un livre hier.", "He bought a book yesterday."], "language"),
        (5, ["Zwei Männer spielen im Park Fußball.", "Dva muži hrají v parku fotbal."], "language"),
        (6, ["Les enfants sont à l'école.", "Los niños ya están en la escuela."], "language"),
    ],
)
def test_a_line_in_another_language_is_found(number, pair, fault):
    pairs = [*ENGLISH[:number], pair, *ENGLISH[number + 1 :]]
    assert found(pairs, codes=("de", "en")) == {"copied": [3], fault: [number]}


def test_repeats_are_found():
    pairs = parallel.pairs(250)
    one, two, three, four = random.Random(0).sample(range(200), 4)
    pairs.append(list(pairs[one]))
    pairs.append([pairs[two][0].upper() + " - 77!", pairs[two][1].rstrip(".!?")])
    pairs.append([pairs[three][0], pairs[four][1]])  # no pair that was there before
    repeats = found(pairs)
    repeats.pop("length", None)
    assert repeats == {"duplicate": [250], "near_duplicate": [251]}


def test_keys_of_pairs_differ_where_one_side_does():
    keys = np.stack(np.meshgrid(np.arange(300), np.arange(300))).reshape(2, -1)
    pairs = faults.pair_keys(*keys)
    assert not faults.is_repeated(pairs).any()
    assert np.flatnonzero(faults.is_repeated(np.append(pairs, pairs[7]))).tolist() == [90_000]


def test_pairs_over_max_length():
    pairs = parallel.pairs(300)
    words = np.array([max(len(text.split()) for text in pair) + 1 for pair in pairs])
    assert found(pairs, max_length=18) == {"long": np.flatnonzero(words > 18).tolist()}
    assert 0 < (words > 18).sum() < 300


def test_overlap_with_train():
    train, other = parallel.pairs(100), parallel.pairs(6, 50)
    split = [
        list(train[7]),
        [train[8][0].upper(), train[8][1] + " 5"],  # nearly
        [train[9][0], other[1][1]],
        [other[2][0], train[9][1]],
        other[3],
        ["", ""],
    ]
    train += [["", ""]]
    blank = np.array([False] * 5 + [True])
    masks, of_train = faults.overlap(parallel.scanned(train), parallel.scanned(split), blank)
    assert lines_of(masks) == {"overlap": [0, 1], "source_in_train": [2], "target_in_train": [3]}
    assert np.flatnonzero(of_train).tolist() == [7, 8]
