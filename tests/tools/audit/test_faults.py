"""Each fault, planted at random lines of a clean corpus, is found there and nowhere else."""

import random

import numpy as np
import pytest
from helpers import corpora
from tools.audit import parallel

from transformer.tools.audit import faults

COUNT = 2000


def masks_of(pairs, **options):
    sides = parallel.scanned(pairs, **options)
    return faults.pair_faults(*sides, options.get("max_length", 128)).masks


def lines_of(masks):
    """{fault: its lines}, of what is found."""
    return {name: np.flatnonzero(mask).tolist() for name, mask in masks.items() if mask.any()}


CYRILLIC = {ord("a") + i: chr(ord("а") + i) for i in range(26)}
PLANTED = {
    "blank": lambda pair: pair.__setitem__(1, " \u3000"),
    "broken": lambda pair: pair.__setitem__(0, pair[0] + " gr\ufffdn"),
    "invisible": lambda pair: pair.__setitem__(0, "\u200b" + pair[0]),
    "decomposed": lambda pair: pair.__setitem__(0, pair[0] + " ne\u0301"),
    "script": lambda pair: pair.__setitem__(1, pair[1].translate(CYRILLIC)),
    "tags": lambda pair: pair.__setitem__(0, pair[0] + "<br />"),
    "entities": lambda pair: pair.__setitem__(1, pair[1] + " &quot;"),
    "copied": lambda pair: pair.__setitem__(0, pair[1].upper()),
    "length": lambda pair: pair.__setitem__(1, (pair[1] + " ") * 4),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_where_it_is(fault, seed):
    pairs = [pair for pair in parallel.pairs(COUNT, 1) if len(pair[0]) > 40]
    planted = sorted(random.Random(seed).sample(range(len(pairs)), 7))
    for number in planted:
        PLANTED[fault](pairs[number])
    assert lines_of(masks_of(pairs)) == {fault: planted}


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
    assert lines_of(masks_of(pairs, codes=("de", "en"))) == {"copied": [3], fault: [number]}


def test_a_run_of_misaligned_lines_is_found():
    pairs = parallel.pairs(1000)
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    target[400:700] = target[399:699]
    sides = parallel.scanned(list(zip(source, target, strict=True)))
    found = faults.pair_faults(*sides, 128)
    assert [run.shift for run in found.misaligned] == [1]
    misaligned = np.flatnonzero(found.masks["misaligned"])
    assert {*range(406, 694)} <= {*misaligned} <= {*range(394, 706)}


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_corpus_has_no_fault(seed):
    pairs = parallel.pairs(COUNT, seed)
    sides = parallel.scanned(pairs)
    assert lines_of(faults.pair_faults(*sides, 128).masks) == {}


@pytest.mark.parametrize("seed", range(3))
def test_repeats_are_found(seed):
    pairs, chosen = parallel.pairs(200, seed), random.Random(seed)
    one, two, three, four = chosen.sample(range(200), 4)
    number = {"duplicate": 250, "near_duplicate": 251}
    pairs += parallel.pairs(50, seed + 9)
    pairs.append(list(pairs[one]))
    pairs.append([pairs[two][0].upper() + " - 77!", pairs[two][1].rstrip(".!?")])
    pairs.append([pairs[three][0], pairs[four][1]])  # the source of one, the target of another
    masks = lines_of(masks_of(pairs))
    masks.pop("length", None)
    assert masks == {
        **{name: [line] for name, line in number.items()},
        "many_targets": sorted([three, 252]),
        "many_sources": sorted([four, 252]),
    }


def test_pairs_over_max_length():
    pairs = parallel.pairs(300)
    words = np.array([max(len(text.split()) for text in pair) + 1 for pair in pairs])
    masks = masks_of(pairs, max_length=18)
    assert lines_of(masks) == {"long": np.flatnonzero(words > 18).tolist()}
    assert 0 < (words > 18).sum() < 300


def test_characters_of_the_vocabulary():
    pairs = [["abc.", "abd."], ["abc", "abé"], ["abc", "abf"]]
    masks = masks_of(pairs, pieces=corpora.learn("text"))
    assert masks["spelt"].tolist() == [True, True, False]  # there is no full stop in it


def test_overlap_with_train():
    train, other = parallel.pairs(100), parallel.pairs(6, 50)
    split = [
        *(list(train[7]), [train[8][0].upper(), train[8][1] + " 5"]),  # exactly, and nearly
        *([train[9][0], other[1][1]], [other[2][0], train[9][1]]),
        *(other[3], ["", ""]),
    ]
    train += [["", ""]]
    blank = np.array([False] * 5 + [True])
    masks, of_train = faults.overlap(parallel.scanned(train), parallel.scanned(split), blank)
    assert lines_of(masks) == {"overlap": [0, 1], "source_in_train": [2], "target_in_train": [3]}
    assert np.flatnonzero(of_train).tolist() == [7, 8]


def test_every_fault_has_a_description():
    masks = masks_of(parallel.pairs(30))
    assert list(masks) == [name for name in faults.FAULTS if name in masks]
    assert {*faults.FAULTS} - {*masks} == {"overlap", "source_in_train", "target_in_train"}
