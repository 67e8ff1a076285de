"""Generates the noun phrases of the built-in corpus, persons and things, in both languages."""

import random
from collections.abc import Sequence

from transformer.tools.quickstart import lexicon, morphology
from transformer.tools.quickstart.lexicon import Phrase, Verb
from transformer.tools.quickstart.morphology import attach, join


def chance(rng: random.Random, probability: float) -> bool:
    """Returns True with a probability."""
    return rng.random() < probability


def noun_phrase(rng: random.Random, classes: str, kinds: str, adjectives: float = 0.25) -> Phrase:
    """Returns a phrase of one of `kinds`: bare (generic), definite or counted.

    Its noun is of one of `classes`; `adjectives` is the share of phrases with an adjective.
    """
    nouns = [(name, noun) for name in classes.split() for noun in lexicon.NOUNS[name]]
    name, noun = rng.choice(nouns)
    kind = rng.choice(kinds.split())
    is_mass, is_person = not noun.counter, name in lexicon.PERSONS.split()
    if is_mass and (kind == "counted" or name == "study"):
        kind = "bare"
    fitting = [verb for verb in lexicon.ADJECTIVES if name in verb.classes.split()]
    adjective = "", ""
    if fitting and chance(rng, adjectives):
        verb = rng.choice(fitting)
        adjective = morphology.adnominal(verb.stem), verb.english
    determiner, counter, is_plural = ("", ""), "", not is_mass
    if kind == "definite":
        is_plural = not is_mass and chance(rng, 0.3)
        # Kin is always somebody's (my friend), other persons are nobody's (the student).
        is_owned = name == "kin" or (not is_person and chance(rng, 0.5))
        determiner = rng.choice(lexicon.POSSESSIVES if is_owned else lexicon.DETERMINERS)
        if is_plural and determiner[1] in lexicon.IRREGULAR_PLURALS:  # these, those
            determiner = determiner[0], morphology.plural(determiner[1])
    elif kind == "counted":
        numeral, english = rng.choice(lexicon.NUMERALS)
        is_plural = english != "a"
        counter = f"{numeral} {noun.counter}"
        if english == "a" and join(adjective[1], noun.english)[0] in "aeiou":
            english = "an"
        determiner = "", english
    # 들 marks an English plural, but not of generic things, nor after a number.
    is_marked = is_plural and (kind == "definite" or (kind == "bare" and is_person))
    korean = join(determiner[0], adjective[0], noun.korean + "들" * is_marked, counter)
    form = morphology.plural(noun.english) if is_plural else noun.english
    english = join(determiner[1], adjective[1], form)
    return Phrase(korean, english, "they" if is_plural else "it", english)


def overlaps(phrase: Phrase, subject: Phrase) -> bool:
    """Returns whether the subject would act on itself: I ... us, Tom ... Tom's dog."""
    words = {*phrase.english.replace("'s", "").split()}
    words &= {*subject.english.replace("'s", "").split()}
    shares_a_name = any(name.english in words for name in lexicon.NAMES)
    return shares_a_name or phrase == subject or {phrase.person, subject.person} <= {"I", "we"}


def person(rng: random.Random, *, simple: bool = False, but: Sequence[Phrase] = ()) -> Phrase:
    """Returns a pronoun, a name or, unless `simple`, a definite person.

    It overlaps with none of the phrases `but`.
    """
    # An empty list: a definite person.
    while True:
        kind = rng.choices((lexicon.PRONOUNS, lexicon.NAMES, []), (5, 3, 0 if simple else 4))[0]
        phrase = rng.choice(kind) if kind else noun_phrase(rng, lexicon.PERSONS, "definite")
        if not any(overlaps(phrase, excluded) for excluded in but):
            return phrase


def both(first: Phrase, second: Phrase) -> Phrase:
    """Returns two phrases joined by and."""
    english = f"{first.english} and {second.english}"
    return Phrase(f"{attach(first.korean, '과/와')} {second.korean}", english, "they", english)


def persons(rng: random.Random) -> Phrase:
    """Returns a person, or sometimes two by their names."""
    return both(*rng.sample(lexicon.NAMES, 2)) if chance(rng, 0.1) else person(rng)


def thing(rng: random.Random, verb: Verb, subject: Phrase, simple: bool = False) -> Phrase:
    """Returns an object of a verb; a `simple` one is bare, a pronoun or a name."""
    if verb.classes.startswith("kin") and chance(rng, 0.3 if verb in lexicon.STATES else 0.7):
        return person(rng, simple=simple, but=(subject,))
    if simple:
        return noun_phrase(rng, verb.classes, "bare", 0)
    if chance(rng, 0.1):
        # Bare, because an adjective or owner before the first noun could apply to both.
        first = noun_phrase(rng, verb.classes, "bare", 0)
        second = noun_phrase(rng, verb.classes, "bare", 0)
        return both(first, second) if first != second else first
    # Somebody likes apples, or these apples, hardly three apples.
    kinds = "bare definite" if verb in lexicon.STATES else "bare definite counted"
    while True:
        phrase = noun_phrase(rng, verb.classes, kinds)
        if not overlaps(phrase, subject):
            return phrase
