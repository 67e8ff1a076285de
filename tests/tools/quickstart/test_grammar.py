"""The built-in language: one meaning per sentence, correct forms, splits without overlap."""

import hashlib
import itertools
import random

import pytest

from transformer.tools.quickstart import grammar, lexicon, morphology
from transformer.tools.quickstart.lexicon import Clause, Verb
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
    """The README's: it is in SENTENCES below, and its words are common, but it is in no split."""
    assert grammar.HELD_OUT == ("나는 사과를 좋아해", "I like apples")
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


def test_shape_of_sentences(splits):
    for korean, english in itertools.chain(*splits.values()):
        assert 2 <= len(korean.split()) <= grammar.MAX_WORDS
        assert english[0].isupper()
        assert "." not in korean + english
        assert korean.endswith("?") == english.endswith("?")
        assert korean == " ".join(korean.split())
        assert english == " ".join(english.split())


def test_seed_alone_decides(splits):
    assert grammar.sentence_pairs(1) != splits
    # The same on every Python and under every PYTHONHASHSEED. Changes when the language changes.
    text = "\n".join("\t".join(pair) for pairs in splits.values() for pair in pairs)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "268570d28f49253b"


def test_a_particle_follows_the_final_consonant():
    attached = "사과-를 물-을 나-는 형-은 고양이-가 책-이 메리-와 톰-과 버스-로 지하철-로 트럭-으로"
    particles = {
        x: pair for pair in ("을/를", "은/는", "이/가", "과/와", "으로/로") for x in pair.split("/")
    }
    for word, particle in (x.split("-") for x in attached.split()):
        assert morphology.attach(word, particles[particle]) == word + particle


@pytest.mark.parametrize(
    ("stem", "negated", "forms"),
    [
        ("먹", False, "먹어 먹었어 먹을 거야"),
        ("좋아하", False, "좋아해 좋아했어 좋아할 거야"),
        ("가", False, "가 갔어 갈 거야"),
        ("오", False, "와 왔어 올 거야"),
        ("마시", False, "마셔 마셨어 마실 거야"),
        ("배우", False, "배워 배웠어 배울 거야"),
        ("보내", False, "보내 보냈어 보낼 거야"),
        ("쉬", False, "쉬어 쉬었어 쉴 거야"),
        ("쓰", False, "써 썼어 쓸 거야"),
        ("팔", False, "팔아 팔았어 팔 거야"),
        ("듣", False, "들어 들었어 들을 거야"),
        ("돕", False, "도와 도왔어 도울 거야"),
        ("부르", False, "불러 불렀어 부를 거야"),
        ("바쁘", False, "바빠 바빴어 바쁠 거야"),
        ("예쁘", False, "예뻐 예뻤어 예쁠 거야"),
        ("빨갛", False, "빨개 빨갰어 빨갈 거야"),
        ("귀엽", False, "귀여워 귀여웠어 귀여울 거야"),
        ("있", False, "있어 있었어 있을 거야"),
        ("팔", True, "팔지 않아 팔지 않았어 팔지 않을 거야"),
        ("있", True, "없어 없었어 없을 거야"),
        ("먹을 수 있", True, "먹을 수 없어 먹을 수 없었어 먹을 수 없을 거야"),
        ("맛있", True, "맛있지 않아 맛있지 않았어 맛있지 않을 거야"),
    ],
)
def test_conjugation(stem, negated, forms):
    made = [predicate(stem, tense, negated) for tense in ("present", "past", "future")]
    assert " ".join(made) == forms


def test_connective_and_adnominal_forms():
    made = [predicate("먹", tense, False, "지만") for tense in lexicon.TENSES]
    assert made == ["먹었지만", "먹지만", "먹을 거지만"]
    assert predicate("만들", "present", True, "고") == "만들지 않고"
    stems = "크 작 길 예쁘 아름답 빨갛 맛있 비싸"
    made = " ".join(map(morphology.adnominal, stems.split()))
    assert made == "큰 작은 긴 예쁜 아름다운 빨간 맛있는 비싼"


@pytest.mark.parametrize(
    ("person", "present", "negated", "past", "is_", "was"),
    [
        ("I", "I like", "I do not like", "I liked", "I am", "I was"),
        ("you", "you like", "you do not like", "you liked", "you are", "you were"),
        ("he", "he likes", "he does not like", "he liked", "he is", "he was"),
        ("she", "she likes", "she does not like", "she liked", "she is", "she was"),
        ("we", "we like", "we do not like", "we liked", "we are", "we were"),
        ("they", "they like", "they do not like", "they liked", "they are", "they were"),
    ],
)
def test_agreement(person, present, negated, past, is_, was):
    [subject] = [phrase for phrase in lexicon.PRONOUNS if phrase.english == person]
    english = lambda *clause: morphology.translation(Clause(*clause))[1]
    like, be = (subject, Verb("좋아하", "like"), ()), (subject, Verb("크", "be"), ())
    assert english(*like, "present") == present
    assert english(*like, "present", True) == negated
    assert english(*like, "past") == past
    assert english(*like, "future") == f"{person} will like"
    assert (english(*be, "present"), english(*be, "past")) == (is_, was)


def test_english_endings():
    suffixed = lambda ending, words: " ".join(morphology.suffix(x, ending) for x in words.split())
    verbs = "make swim cry play fix"
    assert suffixed("ing", verbs) == "making swimming crying playing fixing"
    assert suffixed("s", verbs) == "makes swims cries plays fixes"
    assert suffixed("ed", "hate cry play") == "hated cried played"
    words = "apple potato strawberry watch child woman this"
    plurals = "apples potatoes strawberries watches children women these"
    assert " ".join(map(morphology.plural, words.split())) == plurals


SENTENCES = [
    (grammar.simple, "나는 사과를 좋아해", "I like apples"),
    (grammar.simple, "그녀는 사과를 좋아하지 않아", "She does not like apples"),
    (grammar.simple, "너는 사과를 좋아해?", "Do you like apples?"),
    (grammar.simple, "나는 너를 사랑해", "I love you"),
    (grammar.simple, "나는 빵을 먹지만 그녀는 물을 마셔", "I eat bread but she drinks water"),
    (grammar.simple, "톰은 빵을 먹었고 메리는 물을 마셨어", "Tom ate bread and Mary drank water"),
    (grammar.transitive, "나는 사과 한 개를 먹었어", "I ate an apple"),
    (grammar.transitive, "나는 사과 세 개를 먹었어", "I ate three apples"),
    (grammar.transitive, "그는 그 사과들을 샀어", "He bought the apples"),
    (grammar.transitive, "나는 책을 읽고 있어", "I am reading books"),
    (grammar.transitive, "우리는 커피를 마실 수 없어", "We cannot drink coffee"),
    (grammar.transitive, "그녀는 빵을 먹고 싶어 해", "She wants to eat bread"),
    (grammar.transitive, "그는 나를 도와야 했어", "He had to help me"),
    (grammar.transitive, "나는 빵과 치즈를 샀어", "I bought bread and cheese"),
    (grammar.transfer, "나는 그녀에게 책을 줬어", "I gave books to her"),
    (grammar.motion, "내일 그는 집에 갈 거야", "He will go home tomorrow"),
    (grammar.motion, "그들은 지하철로 공원에 갔어", "They went to the park by subway"),
    (grammar.motion, "나는 톰과 함께 시장에 갔어", "I went to the market with Tom"),
    (grammar.activity, "나는 집에서 쉬어", "I rest at home"),
    (grammar.activity, "그녀는 자고 있었어", "She was sleeping"),
    (grammar.description, "사과는 맛있어", "Apples are delicious"),
    (grammar.description, "그 개들은 크지 않았어", "The dogs were not big"),
    (grammar.description, "톰의 자동차는 빨라", "Tom's car is fast"),
    (grammar.description, "그녀는 바쁠 거야", "She will be busy"),
    (grammar.location, "나는 지금 집에 없어", "I am not at home now"),
    (grammar.existence, "공원에 개 한 마리가 있어", "There is a dog in the park"),
    (grammar.existence, "공원에 개가 없어", "There are no dogs in the park"),
    (grammar.existence, "시장에 꽃이 많아", "There are many flowers at the market"),
    (grammar.possession, "나는 개 두 마리가 있어", "I have two dogs"),
    (grammar.possession, "그는 개가 없었어", "He did not have dogs"),
]


def reduce_lexicon(korean, monkeypatch):
    """Keeps about the words of one sentence, so that it is drawn soon."""

    def is_in(verb):
        past = predicate(verb.stem, "past").removesuffix("어")
        forms = verb.stem, morphology.infinitive(verb.stem), morphology.prospective(verb.stem), past
        return any(form in korean for form in forms)

    keep = lambda name, rows: monkeypatch.setattr(lexicon, name, rows)
    for name in ("PRONOUNS", "PLACES", "VEHICLES", "DETERMINERS", "POSSESSIVES", "NUMERALS"):
        rows = getattr(lexicon, name)
        keep(name, [row for row in rows if row[0] in korean] or rows)
    keep("NAMES", sorted(lexicon.NAMES, key=lambda name: name.korean not in korean)[:2])
    for name in ("STATES", "ACTIONS", "TRANSFERS", "ACTIVITIES", "MOTIONS", "ADJECTIVES"):
        keep(name, list(filter(is_in, getattr(lexicon, name))))
    chosen = lambda nouns: [noun for noun in nouns if noun.korean in korean] or nouns[:1]
    keep("NOUNS", {name: chosen(nouns) for name, nouns in lexicon.NOUNS.items()})


@pytest.mark.parametrize(("template", "korean", "english"), SENTENCES)
def test_sentence(template, korean, english, monkeypatch):
    reduce_lexicon(korean, monkeypatch)
    monkeypatch.setattr(grammar, "TEMPLATES", {template: 1})
    rng = random.Random(3)
    drawn = (grammar.sentence(rng) for _ in range(150_000))
    assert next((pair for pair in drawn if pair[0] == korean), None) == (korean, english)
