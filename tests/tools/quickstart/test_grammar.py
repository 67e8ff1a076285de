"""The built-in language: one meaning per sentence, correct forms, splits without overlap."""

import hashlib
import itertools
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


SENTENCES = """
    나는 너를 사랑해 = I love you
    그녀는 뛰지 않아 = She does not run
    그는 사과를 좋아해? = Does he like apples?
    너는 도서관에 갔어? = Did you go to the library?
    너는 새를 좋아하지만 그녀는 나를 좋아해 = You like birds but she likes me
    그는 편지를 썼고 존은 꽃을 팔았어 = He wrote letters and John sold flowers
    오늘 톰은 달걀 한 개를 샀어 = Tom bought an egg today
    우리는 시계 세 개를 고쳤어 = We fixed three watches
    그녀는 그 영화들을 봤어 = She watched the movies
    나는 저 개들을 싫어해 = I hate those dogs
    지금 나는 뛰고 있어 = I am running now
    그 가수는 자고 있었어 = The singer was sleeping
    너는 걸을 수 없어 = You cannot walk
    나는 달걀을 팔고 싶어 = I want to sell eggs
    그녀는 자고 싶어 해 = She wants to sleep
    그는 울어야 했어 = He had to cry
    우리는 책과 시를 썼어 = We wrote books and poems
    그는 그들에게 시계를 줬어 = He gave watches to them
    내일 그녀는 일할 거야 = She will work tomorrow
    나는 기차로 카페에 왔어 = I came to the cafe by train
    나는 메리와 함께 공원에 가 = I go to the park with Mary
    안나는 시장에서 쉬었어 = Anna rested at the market
    사과는 맛있어 = Apples are delicious
    그 가수들은 젊지 않았어 = The singers were not young
    톰의 빵은 쌌어 = Tom's bread was cheap
    그녀는 바쁠 거야 = She will be busy
    지금 존은 집에 없어 = John is not at home now
    공원에 말 한 마리가 있어 = There is a horse in the park
    도시에 고양이가 없어 = There are no cats in the city
    카페에 가방이 많아 = There are many bags at the cafe
    나는 가방 두 개가 있어 = I have two bags
    그는 개가 없었어 = He did not have dogs
    톰과 유나는 쉬었어 = Tom and Yuna rested
    너는 지하철로 집에 와 = You come home by subway
    나는 역사를 배워 = I learn history
    톰은 물을 마셔 = Tom drinks water
    그는 톰에게 책을 보내 = He sends books to Tom
    너는 음악을 들었어 = You listened to music
    그는 바빠 = He is busy
    시계는 예뻐 = Watches are pretty
    존은 빵을 만들지 않아 = John does not make bread
    존은 쉴 수 없어 = John cannot rest
    수프는 맛있지 않아 = Soup is not delicious
    그는 시를 쓸 거지만 너는 편지를 읽을 거야 = He will write poems but you will read letters
    안나는 긴 책 한 권을 빌려 = Anna borrows a long book
    너는 아름다운 꽃을 그려 = You draw beautiful flowers
    병원에 작은 새가 없어 = There are no small birds at the hospital
    카페에 빨간 자동차가 많아 = There are many red cars at the cafe
"""


def test_sentences_of_every_template_and_form(splits):
    expected = {tuple(line.strip().split(" = ")) for line in SENTENCES.strip().splitlines()}
    assert expected - {*itertools.chain(*splits.values())} == set()
