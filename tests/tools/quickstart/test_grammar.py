"""The built-in language: one meaning per sentence, correct forms, splits without overlap."""

import hashlib
import itertools
import random

import pytest

from transformer.tools.quickstart import grammar
from transformer.tools.quickstart.lexicon import Clause, Verb, attach, predicate, translation

FIRST, YOU, _, SHE, WE, THEY = grammar.PRONOUNS
TOM = grammar.NAMES[0]


@pytest.fixture(scope="module")
def splits():
    return grammar.sentence_pairs()


@pytest.fixture(scope="module")
def language():
    """So many sentences that some are drawn twice, to compare their translations."""
    rng = random.Random(1)
    return [grammar.sentence(rng) for _ in range(150_000)]


def assert_function(pairs):
    english_of = {}
    for korean, english in pairs:
        assert english_of.setdefault(korean, english) == english
    return english_of


def test_one_translation(language):
    assert len(assert_function(language)) < 0.9 * len(language)  # so many were drawn again


@pytest.mark.slow
def test_one_translation_in_a_small_language(monkeypatch):
    """With few words nearly every simple sentence is drawn, by each of its derivations."""
    for name, count in (("NAMES", 3), ("PLACES", 2), ("NUMERALS", 2), ("DETERMINERS", 1)):
        monkeypatch.setattr(grammar, name, getattr(grammar, name)[:count])
    monkeypatch.setattr(grammar, "POSSESSIVES", grammar.POSSESSIVES[2:4])
    monkeypatch.setattr(grammar, "ACTIVITIES", grammar.ACTIVITIES[:2])
    nouns = {name: entries[:1] for name, entries in grammar.NOUNS.items()}
    monkeypatch.setattr(grammar, "NOUNS", nouns)
    rng = random.Random(2)
    drawn = [grammar.sentence(rng) for _ in range(100_000)]
    assert len(assert_function(drawn)) < 0.7 * len(drawn)


def test_no_two_words_share_a_form():
    nouns = [noun for entries in grammar.NOUNS.values() for noun in entries]
    assert (
        len({noun.korean for noun in nouns}) == len({noun.english for noun in nouns}) == len(nouns)
    )
    actions = grammar.STATES + grammar.ACTIONS + grammar.TRANSFERS + grammar.ACTIVITIES
    english_of = {}
    for verb in {*actions, *grammar.MOTIONS, *grammar.ADJECTIVES}:
        for tense, negated, link in itertools.product(grammar.TENSES, (0, 1), ("", "고", "지만")):
            form = predicate(verb.stem, tense, negated, link)
            assert english_of.setdefault(form, (verb.english, tense)) == (verb.english, tense)


def test_sizes_and_disjoint_splits(splits):
    assert list(splits) == ["train", "validation", "test"]
    assert [len(pairs) for pairs in splits.values()] == [24_000, 500, 500]
    korean = [korean for pairs in splits.values() for korean, _ in pairs]
    assert len(set(korean)) == len(korean)
    english = [{english for _, english in pairs} for pairs in splits.values()]
    for one, other in itertools.combinations(english, 2):
        assert not one & other


def test_held_out_sentence(splits, language):
    assert grammar.HELD_OUT == ("나는 사과를 좋아해", "I like apples")
    assert grammar.HELD_OUT in language
    for korean, english in itertools.chain(*splits.values()):
        assert korean != grammar.HELD_OUT[0]
        assert english != grammar.HELD_OUT[1]
    for word in grammar.HELD_OUT[0].split():
        assert sum(word in korean.split() for korean, _ in splits["train"]) > 100


def test_simple_sentences_and_every_word_are_common(splits):
    persons = {attach(phrase.korean, "은/는") for phrase in grammar.PRONOUNS + grammar.NAMES}
    simple = [
        k for k, _ in splits["train"] if k.split()[0] in persons and k.split()[1][-1] in "을를"
    ]
    assert len(simple) > 0.15 * len(splits["train"])
    text = " ".join(english for _, english in splits["train"]).lower()
    for noun in itertools.chain(*grammar.NOUNS.values()):
        assert text.count(noun.english.lower()[:-1]) > 100, noun


def test_shape_of_sentences(splits):
    for korean, english in itertools.chain(*splits.values()):
        assert 2 <= len(korean.split()) <= 12
        assert english[0].isupper()
        assert "." not in korean + english
        assert korean.endswith("?") == english.endswith("?")
        assert korean == " ".join(korean.split())
        assert english == " ".join(english.split())


def test_seed_alone_decides(splits):
    assert grammar.sentence_pairs(grammar.SEED) == splits
    assert grammar.sentence_pairs(1) != splits
    # The same on every Python and under every PYTHONHASHSEED. Changes when the language changes.
    text = "\n".join("\t".join(pair) for pairs in splits.values() for pair in pairs)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "268570d28f49253b"


@pytest.mark.parametrize(
    ("word", "particle", "attached"),
    [
        ("사과", "을/를", "사과를"),
        ("물", "을/를", "물을"),
        ("나", "은/는", "나는"),
        ("형", "은/는", "형은"),
        ("고양이", "이/가", "고양이가"),
        ("책", "이/가", "책이"),
        ("메리", "과/와", "메리와"),
        ("톰", "과/와", "톰과"),
        ("버스", "으로/로", "버스로"),
        ("지하철", "으로/로", "지하철로"),
        ("트럭", "으로/로", "트럭으로"),
    ],
)
def test_particle_follows_the_final_consonant(word, particle, attached):
    assert attach(word, particle) == attached


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        ("먹", "먹어 먹었어 먹을 거야 먹지 않아 먹지 않았어 먹지 않을 거야"),
        ("좋아하", "좋아해 좋아했어 좋아할 거야 좋아하지 않아 좋아하지 않았어 좋아하지 않을 거야"),
        ("가", "가 갔어 갈 거야 가지 않아 가지 않았어 가지 않을 거야"),
        ("오", "와 왔어 올 거야 오지 않아 오지 않았어 오지 않을 거야"),
        ("마시", "마셔 마셨어 마실 거야 마시지 않아 마시지 않았어 마시지 않을 거야"),
        ("배우", "배워 배웠어 배울 거야 배우지 않아 배우지 않았어 배우지 않을 거야"),
        ("보내", "보내 보냈어 보낼 거야 보내지 않아 보내지 않았어 보내지 않을 거야"),
        ("쉬", "쉬어 쉬었어 쉴 거야 쉬지 않아 쉬지 않았어 쉬지 않을 거야"),
        ("쓰", "써 썼어 쓸 거야 쓰지 않아 쓰지 않았어 쓰지 않을 거야"),
        ("팔", "팔아 팔았어 팔 거야 팔지 않아 팔지 않았어 팔지 않을 거야"),
        ("듣", "들어 들었어 들을 거야 듣지 않아 듣지 않았어 듣지 않을 거야"),
        ("돕", "도와 도왔어 도울 거야 돕지 않아 돕지 않았어 돕지 않을 거야"),
        ("부르", "불러 불렀어 부를 거야 부르지 않아 부르지 않았어 부르지 않을 거야"),
        ("바쁘", "바빠 바빴어 바쁠 거야 바쁘지 않아 바쁘지 않았어 바쁘지 않을 거야"),
        ("예쁘", "예뻐 예뻤어 예쁠 거야 예쁘지 않아 예쁘지 않았어 예쁘지 않을 거야"),
        ("빨갛", "빨개 빨갰어 빨갈 거야 빨갛지 않아 빨갛지 않았어 빨갛지 않을 거야"),
        ("귀엽", "귀여워 귀여웠어 귀여울 거야 귀엽지 않아 귀엽지 않았어 귀엽지 않을 거야"),
        ("있", "있어 있었어 있을 거야 없어 없었어 없을 거야"),
        (
            "먹을 수 있",
            "먹을 수 있어 먹을 수 있었어 먹을 수 있을 거야 "
            "먹을 수 없어 먹을 수 없었어 먹을 수 없을 거야",
        ),
        ("맛있", "맛있어 맛있었어 맛있을 거야 맛있지 않아 맛있지 않았어 맛있지 않을 거야"),
    ],
)
def test_conjugation(stem, forms):
    tenses = ("present", "past", "future")
    made = [predicate(stem, tense, negated) for negated in (False, True) for tense in tenses]
    assert " ".join(made) == forms


def test_connective_forms():
    made = [predicate("먹", tense, False, "지만") for tense in grammar.TENSES]
    assert made == ["먹었지만", "먹지만", "먹을 거지만"]
    assert predicate("만들", "present", True, "고") == "만들지 않고"


def test_adnominal_forms():
    stems = ["크", "작", "길", "예쁘", "아름답", "빨갛", "맛있", "비싸"]
    made = [grammar.adnominal(stem) for stem in stems]
    assert made == ["큰", "작은", "긴", "예쁜", "아름다운", "빨간", "맛있는", "비싼"]


@pytest.mark.parametrize(
    ("subject", "present", "negated", "past"),
    [
        (FIRST, "I like", "I do not like", "I liked"),
        (YOU, "you like", "you do not like", "you liked"),
        (SHE, "she likes", "she does not like", "she liked"),
        (TOM, "Tom likes", "Tom does not like", "Tom liked"),
        (WE, "we like", "we do not like", "we liked"),
        (THEY, "they like", "they do not like", "they liked"),
    ],
)
def test_agreement_of_verbs(subject, present, negated, past):
    clause = Clause(subject, Verb("좋아하", "like"), (), "present")
    assert translation(clause)[1] == present
    assert translation(clause._replace(negated=True))[1] == negated
    assert translation(clause._replace(tense="past"))[1] == past
    assert translation(clause._replace(tense="future"))[1] == f"{subject.english} will like"


def test_agreement_of_be():
    made = [
        [
            translation(Clause(subject, Verb("크", "be"), (), tense))[1]
            for tense in grammar.TENSES[:2]
        ]
        for subject in grammar.PRONOUNS
    ]
    assert made == [
        ["I was", "I am"],
        ["you were", "you are"],
        ["he was", "he is"],
        ["she was", "she is"],
        ["we were", "we are"],
        ["they were", "they are"],
    ]


def test_english_endings():
    words = ["apple", "potato", "strawberry", "watch", "child", "woman", "this"]
    plurals = ["apples", "potatoes", "strawberries", "watches", "children", "women", "these"]
    assert [grammar.plural(word) for word in words] == plurals
    verbs = ["make", "swim", "cry", "play", "fix"]
    assert [grammar.suffix(v, "ing") for v in verbs] == [
        "making",
        "swimming",
        "crying",
        "playing",
        "fixing",
    ]
    assert [grammar.suffix(v, "s") for v in verbs] == ["makes", "swims", "cries", "plays", "fixes"]
    assert [grammar.suffix(v, "ed") for v in ("hate", "cry", "play")] == [
        "hated",
        "cried",
        "played",
    ]


SENTENCES = [
    (grammar.simple, "나는 사과를 좋아해", "I like apples"),
    (grammar.simple, "그녀는 사과를 좋아하지 않아", "She does not like apples"),
    (grammar.simple, "그들은 물을 마셨어", "They drank water"),
    (grammar.simple, "톰은 책을 읽을 거야", "Tom will read books"),
    (grammar.simple, "너는 사과를 좋아해?", "Do you like apples?"),
    (grammar.simple, "나는 너를 사랑해", "I love you"),
    (grammar.simple, "나는 빵을 먹지만 그녀는 물을 마셔", "I eat bread but she drinks water"),
    (
        grammar.simple,
        "톰은 빵을 먹었고 메리는 물을 마시지 않았어",
        "Tom ate bread and Mary did not drink water",
    ),
    (grammar.transitive, "나는 사과 한 개를 먹었어", "I ate an apple"),
    (grammar.transitive, "나는 사과 세 개를 먹었어", "I ate three apples"),
    (grammar.transitive, "그는 그 사과들을 샀어", "He bought the apples"),
    (grammar.transitive, "나는 책을 읽고 있어", "I am reading books"),
    (grammar.transitive, "우리는 커피를 마실 수 없어", "We cannot drink coffee"),
    (grammar.transitive, "나는 빵을 먹고 싶어", "I want to eat bread"),
    (grammar.transitive, "그녀는 빵을 먹고 싶어 해", "She wants to eat bread"),
    (grammar.transitive, "그는 나를 도와야 했어", "He had to help me"),
    (grammar.transitive, "나는 빵과 치즈를 샀어", "I bought bread and cheese"),
    (grammar.transfer, "나는 그녀에게 책을 줬어", "I gave books to her"),
    (grammar.motion, "우리는 어제 학교에 갔어", "We went to school yesterday"),
    (grammar.motion, "내일 그는 집에 갈 거야", "He will go home tomorrow"),
    (grammar.motion, "그들은 지하철로 공원에 갔어", "They went to the park by subway"),
    (grammar.motion, "나는 톰과 함께 시장에 갔어", "I went to the market with Tom"),
    (grammar.activity, "나는 집에서 쉬어", "I rest at home"),
    (grammar.activity, "그녀는 자고 있었어", "She was sleeping"),
    (grammar.description, "사과는 맛있어", "Apples are delicious"),
    (grammar.description, "그 개는 커", "The dog is big"),
    (grammar.description, "그 개들은 크지 않았어", "The dogs were not big"),
    (grammar.description, "톰의 자동차는 빨라", "Tom's car is fast"),
    (grammar.description, "그녀는 바쁠 거야", "She will be busy"),
    (grammar.location, "나는 지금 집에 없어", "I am not at home now"),
    (grammar.existence, "공원에 개 한 마리가 있어", "There is a dog in the park"),
    (grammar.existence, "공원에 개 두 마리가 있었어", "There were two dogs in the park"),
    (grammar.existence, "공원에 개가 없어", "There are no dogs in the park"),
    (grammar.existence, "시장에 꽃이 많아", "There are many flowers at the market"),
    (grammar.possession, "나는 개 두 마리가 있어", "I have two dogs"),
    (grammar.possession, "그는 개가 없었어", "He did not have dogs"),
]


def words_of(korean, monkeypatch):
    """Reduces the grammar to about the words of one sentence, so that it is drawn soon."""

    def found(entry):
        stem = entry[0]
        forms = {stem, grammar.infinitive(stem), grammar.prospective(stem)}
        past = predicate(stem, "past").removesuffix("어")
        return any(form in korean for form in forms | {past})

    for name in ("PRONOUNS", "PLACES", "VEHICLES", "DETERMINERS", "POSSESSIVES", "NUMERALS"):
        table = getattr(grammar, name)
        kept = tuple(row for row in table if row[0] in korean)
        monkeypatch.setattr(grammar, name, kept or table)
    names = sorted(grammar.NAMES, key=lambda name: name.korean not in korean)
    monkeypatch.setattr(grammar, "NAMES", tuple(names[:2]))
    for name in ("STATES", "ACTIONS", "TRANSFERS", "ACTIVITIES", "MOTIONS", "ADJECTIVES"):
        monkeypatch.setattr(grammar, name, tuple(filter(found, getattr(grammar, name))))
    nouns = {}
    for name, row in grammar.NOUNS.items():
        nouns[name] = tuple(noun for noun in row if noun.korean in korean) or row[:1]
    monkeypatch.setattr(grammar, "NOUNS", nouns)


@pytest.mark.parametrize(("template", "korean", "english"), SENTENCES)
def test_sentence(template, korean, english, monkeypatch):
    words_of(korean, monkeypatch)
    monkeypatch.setattr(grammar, "TEMPLATES", {template: 1})
    rng = random.Random(3)
    drawn = (grammar.sentence(rng) for _ in range(150_000))
    assert next((pair for pair in drawn if pair[0] == korean), None) == (korean, english)
