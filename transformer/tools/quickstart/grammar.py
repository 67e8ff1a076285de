"""The grammar behind the built-in Korean-English corpus: one meaning for every sentence.

Korean puts the verb last and marks roles by particles (나는 사과를 좋아해, "I-topic apples-object
like"); English puts it second and marks roles by order ("I like apples"). After the subject a
Korean clause mirrors the English one, so a clause keeps its complements in English order.

Korean needs neither articles nor plurals. For exactly one translation of every Korean sentence:

    사과를        apples         a bare noun is generic (bare persons take 들: 학생들을, students)
    사과 한 개를   an apple       a number comes with the noun's counter
    그 사과를     the apple      그 the, 이 this, 저 that, 내 my, 너의 your, 우리 our, 톰의 Tom's
    그 사과들을   the apples     with a determiner, 들 is the plural
"""

import random

from transformer.tools.quickstart.lexicon import (
    ACTIONS,
    ACTIVITIES,
    ADJECTIVES,
    DETERMINERS,
    MOTIONS,
    NAMES,
    NOUNS,
    NUMERALS,
    PERSONS,
    PLACES,
    PLURALS,
    POSSESSIVES,
    PRONOUNS,
    STATES,
    TENSES,
    TIMES,
    TRANSFERS,
    VEHICLES,
    Clause,
    Phrase,
    Verb,
    adnominal,
    attach,
    infinitive,
    join,
    plural,
    prospective,
    rows,
    suffix,
    translation,
)

SEED = 0
SIZES = {"test": 500, "validation": 500, "train": 24_000}
MAX_WORDS = 12  # of a Korean sentence
HELD_OUT = ("나는 사과를 좋아해", "I like apples")  # the README translates it: in no split


# Phrases


def chance(rng: random.Random, probability: float) -> bool:
    return rng.random() < probability


def noun_phrase(rng: random.Random, classes: str, kinds: str, adjectives: float = 0.25) -> Phrase:
    """A phrase of one of `kinds`, bare (generic), definite or counted; some have an adjective."""
    name, noun = rng.choice([(name, noun) for name in classes.split() for noun in NOUNS[name]])
    mass, kind = not noun.counter, rng.choice(kinds.split())
    if mass and (kind == "counted" or name == "study"):
        kind = "bare"
    many, counter, determiner, modifier = not mass, "", ("", ""), ("", "")
    fitting = [adjective for adjective in ADJECTIVES if name in adjective.classes.split()]
    if fitting and chance(rng, adjectives):
        adjective = rng.choice(fitting)
        modifier = adnominal(adjective.stem), adjective.english
    if kind == "definite":
        many = not mass and chance(rng, 0.3)
        owned = name == "kin" or (name not in PERSONS.split() and chance(rng, 0.5))
        korean, english = rng.choice(POSSESSIVES if owned else DETERMINERS)
        determiner = korean, PLURALS.get(english, english) if many else english
    elif kind == "counted":
        numeral, english = rng.choice(NUMERALS)
        many, counter = english != "a", f"{numeral} {noun.counter}"
        an = not many and join(modifier[1], noun.english)[0] in "aeiou"
        determiner = "", "an" if an else english
    marked = many and (kind == "definite" or (kind == "bare" and name in PERSONS.split()))
    korean = join(determiner[0], modifier[0], noun.korean + "들" * marked, counter)
    english = join(determiner[1], modifier[1], plural(noun.english) if many else noun.english)
    return Phrase(korean, english, "they" if many else "it", english)


def overlaps(phrase: Phrase, subject: Phrase) -> bool:
    """Whether the subject would act on itself: I ... us, Tom ... Tom's dog."""
    names, words = ({*p.english.replace("'s", "").split()} for p in (phrase, subject))
    shared = names & words & {name.english for name in NAMES}
    return bool(shared) or phrase == subject or {phrase.person, subject.person} <= {"I", "we"}


def person(rng: random.Random, *, simple: bool = False, but: Phrase | None = None) -> Phrase:
    """A pronoun, a name or, unless `simple`, a definite person; none that the subject `but` is."""
    while True:
        kind = rng.choices((PRONOUNS, NAMES, ()), (5, 3, 0 if simple else 4))[0]
        phrase = rng.choice(kind) if kind else noun_phrase(rng, PERSONS, "definite")
        if but is None or not overlaps(phrase, but):
            return phrase


def both(first: Phrase, second: Phrase) -> Phrase:
    english = f"{first.english} and {second.english}"
    return Phrase(f"{attach(first.korean, '과/와')} {second.korean}", english, "they", english)


def persons(rng: random.Random) -> Phrase:
    return both(*rng.sample(NAMES, 2)) if chance(rng, 0.1) else person(rng)


def thing(rng: random.Random, verb: Verb, subject: Phrase, simple: bool = False) -> Phrase:
    """What the verb is done to; a `simple` one is bare or a pronoun or a name."""
    if verb.classes.startswith("kin") and chance(rng, 0.3 if verb in STATES else 0.7):
        return person(rng, simple=simple, but=subject)
    if simple:
        return noun_phrase(rng, verb.classes, "bare", 0)
    if chance(rng, 0.1):  # bare, or an adjective or owner before the first might hold for both
        first, second = (noun_phrase(rng, verb.classes, "bare", 0) for _ in range(2))
        return both(first, second) if first != second else first
    while True:  # one likes apples, or these apples, hardly three apples
        kinds = "bare definite" if verb in STATES else "bare definite counted"
        phrase = noun_phrase(rng, verb.classes, kinds)
        if not overlaps(phrase, subject):
            return phrase


# Clauses


def when(rng: random.Random, tense: str, present: str) -> tuple[str, str]:
    return rng.choice(TIMES[present if tense == "present" else tense])


def action(
    rng: random.Random, subject: Phrase, verb: Verb, *complements: tuple[str, str]
) -> Clause:
    """What one does, is doing, can, wants or has to do, some with a companion or a time."""
    if chance(rng, 0.15):
        friend = person(rng, but=subject)
        complements += ((attach(friend.korean, "과/와") + " 함께", "with " + friend.objective),)
    (stem, english, _), tense, time = verb, rng.choice(TENSES[:2]), "modal"
    mood = rng.choice(("plain", "plain", "plain", "progressive", "can", "want", "must"))
    if mood == "plain" or (mood == "want" and subject.person == "you"):
        tense, time = rng.choice(TENSES), "habit"
    elif mood == "progressive":
        head, *rest = english.split()
        stem, english = stem + "고 있", join("be", suffix(head, "ing"), *rest)
        time = mood
    elif mood == "can":
        stem, english = prospective(stem) + " 수 있", "can " + english
    elif mood == "want":  # one feels one's own wish (싶어) and sees another's (싶어 해)
        stem += "고 싶" if subject.person in ("I", "we") else "고 싶어 하"
        english = "want to " + english
    else:
        stem, english = infinitive(stem) + "야 하", "have to " + english
    moment = when(rng, tense, time) if chance(rng, 0.35) else ("", "")
    negated = mood != "must" and chance(rng, 0.3)
    return Clause(subject, Verb(stem, english), complements, tense, negated, moment)


def accusative(phrase: Phrase) -> tuple[str, str]:
    return attach(phrase.korean, "을/를"), phrase.objective


def somewhere(rng: random.Random) -> list[tuple[str, str]]:
    place, _, where = rng.choice(PLACES)
    return [(place + "에서", where)] if chance(rng, 0.3) else []


def simple(rng: random.Random) -> Clause:
    """나는 사과를 좋아해: I like apples."""
    subject, verb = person(rng, simple=True), rng.choice(STATES * 3 + ACTIONS)
    phrase = thing(rng, verb, subject, simple=True)
    return Clause(subject, verb, (accusative(phrase),), rng.choice(TENSES), chance(rng, 0.35))


def transitive(rng: random.Random) -> Clause:
    """톰은 공원에서 책 한 권을 읽고 있어: Tom is reading a book in the park."""
    subject, verb = persons(rng), rng.choice(STATES + ACTIONS)
    objects = accusative(thing(rng, verb, subject))
    if verb in STATES:
        return Clause(subject, verb, (objects,), rng.choice(TENSES), chance(rng, 0.3))
    return action(rng, subject, verb, objects, *somewhere(rng))


def transfer(rng: random.Random) -> Clause:
    """나는 그녀에게 책을 줬어: I gave books to her."""
    subject, verb = persons(rng), rng.choice(TRANSFERS)
    phrase, receiver = thing(rng, verb, subject), person(rng, but=subject)
    while overlaps(phrase, receiver):
        receiver = person(rng, but=subject)
    goal = (receiver.korean + "에게", "to " + receiver.objective)
    return action(rng, subject, verb, accusative(phrase), goal)


def motion(rng: random.Random) -> Clause:
    """나는 버스로 학교에 가: I go to school by bus."""
    (place, goal, _), (vehicle, means) = rng.choice(PLACES), rng.choice(VEHICLES)
    vehicles = [(attach(vehicle, "으로/로"), means)] if chance(rng, 0.3) else []
    return action(rng, persons(rng), rng.choice(MOTIONS), (place + "에", goal), *vehicles)


def activity(rng: random.Random) -> Clause:
    """나는 집에서 쉬어: I rest at home."""
    return action(rng, persons(rng), rng.choice(ACTIVITIES), *somewhere(rng))


def description(rng: random.Random) -> Clause:
    """그 개는 아주 커: the dog is very big."""
    adjective, tense, negated = rng.choice(ADJECTIVES), rng.choice(TENSES), chance(rng, 0.3)
    if PERSONS in adjective.classes and chance(rng, 0.7):
        subject = person(rng, simple=True)
    else:  # only the present is generic: apples are delicious
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
    (place, _, where), tense = rng.choice(PLACES), rng.choice(TENSES)
    moment = when(rng, tense, "progressive") if chance(rng, 0.3) else ("", "")
    negated = chance(rng, 0.3)
    return Clause(subject, Verb("있", "be"), ((place + "에", where),), tense, negated, moment)


def existence(rng: random.Random) -> Clause:
    """공원에 개 한 마리가 있어: there is a dog in the park."""
    stem, kind, quantity = rng.choice(rows("있:counted:, 없:bare:no, 많:bare:many"))
    phrase = noun_phrase(rng, "job people animal fruit crop goods vehicle plant", kind)
    place, _, where = rng.choice(PLACES)
    complement = (attach(phrase.korean, "이/가"), join(quantity, phrase.english))
    subject, tense = Phrase("", "there", phrase.person), rng.choice(TENSES)
    return Clause(subject, Verb(stem, "be"), (complement, (place + "에", where)), tense)


def possession(rng: random.Random) -> Clause:
    """나는 개 두 마리가 있어: I have two dogs."""
    subject, negated = persons(rng), chance(rng, 0.35)
    classes, kind = "kin animal fruit drink book goods vehicle", "bare" if negated else "counted"
    phrase = noun_phrase(rng, classes, kind)
    complement = (attach(phrase.korean, "이/가"), phrase.english)
    return Clause(subject, Verb("있", "have"), (complement,), rng.choice(TENSES), negated)


# Sentences

TEMPLATES = {  # and their weights
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
LINKS = rows("고:and, 지만:but")


def sentence(rng: random.Random) -> tuple[str, str]:
    """A random sentence of the language and its translation."""
    template = rng.choices(tuple(TEMPLATES), tuple(TEMPLATES.values()))[0]
    clause = template(rng)
    if template is simple and chance(rng, 0.25):  # 나는 빵을 먹지만 그녀는 물을 마셔
        other = simple(rng)._replace(tense=clause.tense)
        if other.subject != clause.subject:
            link, conjunction = rng.choice(LINKS)
            korean, english = zip(translation(clause, link=link), translation(other), strict=True)
            return " ".join(korean), capitalize(f" {conjunction} ".join(english))
    asks = clause.subject.person not in ("I", "we") and not clause.negated and chance(rng, 0.15)
    korean, english = translation(clause, question=asks, time_first=chance(rng, 0.4))
    return korean, capitalize(english)


def capitalize(english: str) -> str:
    return english[0].upper() + english[1:]


def sentence_pairs(seed: int = SEED) -> dict[str, list[tuple[str, str]]]:
    """Pairs (Korean, English) of the splits train, validation and test, the same for the same seed.

    All Korean sentences differ, no English sentence is in two splits, and `HELD_OUT` is in none.
    """
    rng = random.Random(seed)
    seen, taken = {HELD_OUT[0]}, {HELD_OUT[1]}  # Korean so far, English of the splits before
    splits = {}
    for split, size in SIZES.items():  # train last: what the others hold is kept from it
        pairs = splits[split] = []
        while len(pairs) < size:
            korean, english = sentence(rng)
            short = len(korean.split()) <= MAX_WORDS
            if short and korean not in seen and english not in taken:
                seen.add(korean)
                pairs.append((korean, english))
        taken.update(english for _, english in pairs)
    return {split: splits[split] for split in ("train", "validation", "test")}
