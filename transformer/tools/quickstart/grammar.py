"""The grammar of the built-in Korean-English corpus: each sentence has one meaning.

Korean puts the verb last and marks roles by particles (나는 사과를 좋아해, "I-topic apples-object
like"); English puts it second and marks roles by order ("I like apples"). After the subject a
Korean clause mirrors the English one, so a clause keeps its complements in English order.

Korean needs neither articles nor plurals. These rules leave each Korean sentence one translation:

    사과를        apples         a bare noun is generic (bare persons take 들: 학생들을, students)
    사과 한 개를   an apple       a number comes with the noun's counter
    그 사과를     the apple      그 the, 이 this, 저 that, 내 my, 너의 your, 우리 our, 톰의 Tom's
    그 사과들을   the apples     with a determiner, 들 is the plural
"""

import functools
import random

from transformer.runtime import progress
from transformer.tools.quickstart import lexicon, morphology
from transformer.tools.quickstart.lexicon import Clause, Phrase, Verb
from transformer.tools.quickstart.morphology import attach, join, translation
from transformer.tools.quickstart.phrases import chance, noun_phrase, person, persons, thing

SEED = 0
SIZES = {"test": 500, "validation": 500, "train": 24_000}
MAX_WORDS = 12  # of a Korean sentence
HELD_OUT = ("나는 사과를 좋아해", "I like apples")  # the README translates it


# Clauses


def moment(rng: random.Random, share: float, tense: str, present: str) -> tuple[str, str]:
    """Returns a time with probability `share`, else ("", "").

    `present` is the key of TIMES for the present tense; past and future are keys themselves.
    """
    if not chance(rng, share):
        return "", ""
    return rng.choice(lexicon.TIMES[present if tense == "present" else tense])


def action(
    rng: random.Random, subject: Phrase, verb: Verb, *complements: tuple[str, str]
) -> Clause:
    """Returns a clause in which the subject does, is doing, can, wants or has to do an action.

    Some clauses also name a companion or a time.
    """
    # Complements are in English order: the companion is last, so first in Korean.
    if chance(rng, 0.15):
        friend = person(rng, but=(subject,))
        complements += ((attach(friend.korean, "과/와") + " 함께", "with " + friend.objective),)
    stem, english, _ = verb
    head, *rest = english.split()
    # 싶어 for one's own wish, 싶어 해 for the wish of others.
    own_wish = subject.person in ("I", "we")
    forms = {
        "habit": (stem, english),
        "progressive": (stem + "고 있", join("be", morphology.suffix(head, "ing"), *rest)),
        "can": (morphology.prospective(stem) + " 수 있", "can " + english),
        "want": (stem + ("고 싶" if own_wish else "고 싶어 하"), "want to " + english),
        "must": (morphology.infinitive(stem) + "야 하", "have to " + english),
    }
    tense = rng.choice(lexicon.TENSES[:2])  # past or present
    mood = rng.choice(("habit", "habit", "habit", "progressive", "can", "want", "must"))
    if mood == "want" and subject.person == "you":  # a speaker does not know what "you" want
        mood = "habit"
    if mood == "habit":
        tense = rng.choice(lexicon.TENSES)
    # Times of the present depend on the mood; 'can', 'want' and 'must' share those of 'modal'.
    when = moment(rng, 0.35, tense, mood if mood in lexicon.TIMES else "modal")
    negated = mood != "must" and chance(rng, 0.3)
    return Clause(subject, Verb(*forms[mood]), complements, tense, negated, when)


def accusative(phrase: Phrase) -> tuple[str, str]:
    """Returns a phrase as the object of a verb, in Korean and English."""
    return attach(phrase.korean, "을/를"), phrase.objective


def somewhere(rng: random.Random) -> list[tuple[str, str]]:
    """Returns a list with the place of an action, or an empty list."""
    place, _, where = rng.choice(lexicon.PLACES)
    return [(place + "에서", where)] if chance(rng, 0.3) else []


def simple(rng: random.Random) -> Clause:
    """나는 사과를 좋아해: I like apples."""
    subject, verb = person(rng, simple=True), rng.choice(lexicon.STATES * 3 + lexicon.ACTIONS)
    objects = accusative(thing(rng, verb, subject, simple=True))
    tense = rng.choice(lexicon.TENSES)
    return Clause(subject, verb, (objects,), tense, chance(rng, 0.35))


def transitive(rng: random.Random) -> Clause:
    """톰은 공원에서 책 한 권을 읽고 있어: Tom is reading a book in the park."""
    subject, verb = persons(rng), rng.choice(lexicon.STATES + lexicon.ACTIONS)
    objects = accusative(thing(rng, verb, subject))
    if verb in lexicon.STATES:
        return Clause(subject, verb, (objects,), rng.choice(lexicon.TENSES), chance(rng, 0.3))
    return action(rng, subject, verb, objects, *somewhere(rng))


def transfer(rng: random.Random) -> Clause:
    """나는 그녀에게 책을 줬어: I gave books to her."""
    subject, verb = persons(rng), rng.choice(lexicon.TRANSFERS)
    phrase = thing(rng, verb, subject)
    receiver = person(rng, but=(subject, phrase))
    goal = (receiver.korean + "에게", "to " + receiver.objective)
    return action(rng, subject, verb, accusative(phrase), goal)


def motion(rng: random.Random) -> Clause:
    """나는 버스로 학교에 가: I go to school by bus."""
    (place, goal, _), (vehicle, means) = rng.choice(lexicon.PLACES), rng.choice(lexicon.VEHICLES)
    vehicles = [(attach(vehicle, "으로/로"), means)] if chance(rng, 0.3) else []
    return action(rng, persons(rng), rng.choice(lexicon.MOTIONS), (place + "에", goal), *vehicles)


def activity(rng: random.Random) -> Clause:
    """나는 집에서 쉬어: I rest at home."""
    return action(rng, persons(rng), rng.choice(lexicon.ACTIVITIES), *somewhere(rng))


def description(rng: random.Random) -> Clause:
    """그 개는 아주 커: the dog is very big."""
    adjective, tense = rng.choice(lexicon.ADJECTIVES), rng.choice(lexicon.TENSES)
    negated = chance(rng, 0.3)
    if lexicon.PERSONS in adjective.classes and chance(rng, 0.7):
        subject = person(rng, simple=True)
    else:
        # Only the present is generic: apples are delicious.
        kinds = "definite bare" if tense == "present" else "definite"
        subject = noun_phrase(rng, adjective.classes, kinds, 0)
    degree = ("아주", "very") if not negated and chance(rng, 0.25) else ("", "")
    complement = (degree[0], join(degree[1], adjective.english))
    return Clause(subject, Verb(adjective.stem, "be"), (complement,), tense, negated)


def location(rng: random.Random) -> Clause:
    """나는 지금 집에 있어: I am at home now."""
    subject = persons(rng)
    if chance(rng, 0.3):
        subject = noun_phrase(rng, "animal goods vehicle book", "definite")
    place, _, where = rng.choice(lexicon.PLACES)
    tense = rng.choice(lexicon.TENSES)
    when = moment(rng, 0.3, tense, "progressive")
    negated = chance(rng, 0.3)
    return Clause(subject, Verb("있", "be"), ((place + "에", where),), tense, negated, when)


def existence(rng: random.Random) -> Clause:
    """공원에 개 한 마리가 있어: there is a dog in the park."""
    # Korean has verbs for being present, being absent and being many.
    verbs = ("있", "counted", ""), ("없", "bare", "no"), ("많", "bare", "many")
    stem, kind, quantity = rng.choice(verbs)
    phrase = noun_phrase(rng, "job people animal fruit crop goods vehicle plant", kind)
    place, _, where = rng.choice(lexicon.PLACES)
    complement = (attach(phrase.korean, "이/가"), join(quantity, phrase.english))
    subject, tense = Phrase("", "there", phrase.person), rng.choice(lexicon.TENSES)
    return Clause(subject, Verb(stem, "be"), (complement, (place + "에", where)), tense)


def possession(rng: random.Random) -> Clause:
    """나는 개 두 마리가 있어: I have two dogs."""
    subject = persons(rng)
    negated = chance(rng, 0.35)
    kind = "bare" if negated else "counted"
    phrase = noun_phrase(rng, "kin animal fruit drink book goods vehicle", kind)
    complement = (attach(phrase.korean, "이/가"), phrase.english)
    return Clause(subject, Verb("있", "have"), (complement,), rng.choice(lexicon.TENSES), negated)


# Sentences

# {template: weight}
TEMPLATES = {
    simple: 25,
    transitive: 22,
    transfer: 7,
    motion: 10,
    activity: 8,
    description: 12,
    location: 5,
    existence: 6,
    possession: 5,
}
LINKS = (("고", "and"), ("지만", "but"))


def sentence(rng: random.Random) -> tuple[str, str]:
    """Returns a random sentence of the language and its translation."""
    template = rng.choices(tuple(TEMPLATES), tuple(TEMPLATES.values()))[0]
    clause, second = template(rng), None
    if template is simple and chance(rng, 0.25):
        second = simple(rng)._replace(tense=clause.tense)
    if second and second.subject != clause.subject:
        # 나는 빵을 먹지만 그녀는 물을 마셔: I eat bread but she drinks water.
        link, conjunction = rng.choice(LINKS)
        korean, english = translation(clause, link=link)
        next_korean, next_english = translation(second)
        korean, english = f"{korean} {next_korean}", f"{english} {conjunction} {next_english}"
    else:
        # Questions are not about the speaker, and have no negation.
        may_ask = clause.subject.person not in ("I", "we") and not clause.negated
        asks = may_ask and chance(rng, 0.15)
        korean, english = translation(clause, question=asks, time_first=chance(rng, 0.4))
    # str.capitalize would lower the other letters: Tom, I.
    return korean, english[0].upper() + english[1:]


def sentence_pairs(seed: int = SEED) -> dict[str, list[tuple[str, str]]]:
    """Returns the pairs (Korean, English) of train, validation and test, fixed by the seed.

    All Korean sentences differ, no English sentence is in two splits, and `HELD_OUT` is in none.
    """
    rng = random.Random(seed)
    # Korean of all pairs so far, and English of the splits before. Train is generated last, without
    # sentences of the others; within a split, several Korean sentences may share a translation.
    seen, taken = {HELD_OUT[0]}, {HELD_OUT[1]}
    splits = {}
    for split, size in SIZES.items():
        pairs = splits[split] = []
        while len(pairs) < size:
            korean, english = sentence(rng)
            is_short = len(korean.split()) <= MAX_WORDS
            if is_short and korean not in seen and english not in taken:
                seen.add(korean)
                pairs.append((korean, english))
        taken.update(english for _, english in pairs)
    return {split: splits[split] for split in ("train", "validation", "test")}


@functools.cache
def corpus() -> tuple[tuple[str, str], dict[str, list[tuple[str, str]]]]:
    """Returns the languages, and the pairs of each split, always the same."""
    with progress.waiting("generate the corpus"):
        return ("ko", "en"), sentence_pairs(SEED)
