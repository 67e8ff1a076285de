"""The built-in language: one meaning per sentence, correct forms, splits without overlap."""

import hashlib
import itertools
import pathlib
import random

import pytest

from transformer.tools.quickstart import grammar, lexicon, morphology
from transformer.tools.quickstart.lexicon import Clause
from transformer.tools.quickstart.morphology import predicate


@pytest.fixture(scope="module")
def splits():
    return grammar.sentence_pairs()


def test_a_sentence_has_one_translation(monkeypatch):
    """With few words nearly every simple sentence is drawn, by each of its derivations."""
    for name, count in (("NAMES", 3), ("PLACES", 2), ("NUMERALS", 2), ("DETERMINERS", 1)):
        monkeypatch.setattr(lexicon, name, getattr(lexicon, name)[:count])
    monkeypatch.setattr(lexicon, "POSSESSIVES", lexicon.POSSESSIVES[2:4])
    monkeypatch.setattr(lexicon, "ACTIVITIES", lexicon.ACTIVITIES[:2])
    nouns = {name: entries[:1] for name, entries in lexicon.NOUNS.items()}
    monkeypatch.setattr(lexicon, "NOUNS", nouns)
    rng = random.Random(2)
    drawn = [grammar.sentence(rng) for _ in range(60_000)]
    assert len(dict(drawn)) == len(set(drawn)) < 0.7 * len(drawn)  # so many were drawn again


def test_no_two_words_share_a_form():
    nouns = [noun for entries in lexicon.NOUNS.values() for noun in entries]
    assert len({noun.korean for noun in nouns}) == len({noun.english for noun in nouns})
    assert len({noun.korean for noun in nouns}) == len(nouns)
    verbs = {*lexicon.STATES, *lexicon.ACTIONS, *lexicon.TRANSFERS, *lexicon.ACTIVITIES}
    english_of = {}
    for verb in verbs | {*lexicon.MOTIONS, *lexicon.ADJECTIVES}:
        for tense, negated, link in itertools.product(lexicon.TENSES, (0, 1), ("", "고", "지만")):
            form = predicate(verb.stem, tense, negated, link)
            assert english_of.setdefault(form, (verb.english, tense)) == (verb.english, tense)


def test_sizes_and_disjoint_splits(splits):
    assert {name: len(pairs) for name, pairs in splits.items()} == grammar.SIZES
    assert list(splits) == ["train", "validation", "test"]
    korean = [korean for pairs in splits.values() for korean, _ in pairs]
    assert len(set(korean)) == len(korean)
    english = [{english for _, english in pairs} for pairs in splits.values()]
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(english, 2))


def test_held_out_sentence(splits):
    """The README's: the language has it, and its words are common, but it is in no split."""
    clause = Clause(lexicon.PRONOUNS[0], lexicon.STATES[0], (("사과를", "apples"),), "present")
    assert (
        grammar.HELD_OUT
        == morphology.translation(clause)
        == ("나는 사과를 좋아해", "I like apples")
    )
    korean, english = zip(*itertools.chain(*splits.values()), strict=True)
    assert grammar.HELD_OUT[0] not in korean
    assert grammar.HELD_OUT[1] not in english
    for word in grammar.HELD_OUT[0].split():
        assert sum(word in korean.split() for korean, _ in splits["train"]) > 100


def test_simple_sentences_and_every_word_are_common(splits):
    persons = {morphology.attach(x.korean, "은/는") for x in lexicon.PRONOUNS + lexicon.NAMES}
    words = [korean.split() for korean, _ in splits["train"]]
    assert sum(x[0] in persons and x[1][-1] in "을를" for x in words) > 0.15 * len(words)
    text = " ".join(english for _, english in splits["train"]).lower()
    for noun in itertools.chain(*lexicon.NOUNS.values()):
        assert text.count(noun.english.lower()[:-1]) > 100, noun


def test_seed_alone_decides(splits):
    # The same on every Python and under every PYTHONHASHSEED. Changes when the language changes.
    text = "\n".join("\t".join(pair) for pairs in splits.values() for pair in pairs)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "268570d28f49253b"


def test_sentences_of_every_template_and_form(splits):
    lines = (pathlib.Path(__file__).parent / "sentences.tsv").read_text().splitlines()
    expected = {tuple(line.split("\t")) for line in lines}
    assert expected - {*itertools.chain(*splits.values())} == set()
