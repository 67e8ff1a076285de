"""Reads lexicon.tsv, the words of the built-in corpus, and defines the parts of a clause."""

from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("lexicon.tsv")


class Noun(NamedTuple):
    """A noun in both languages."""

    korean: str
    english: str
    counter: str = ""  # "": a mass noun


class Verb(NamedTuple):
    """A verb or adjective."""

    stem: str  # Korean, without the ending 다
    english: str  # the base form
    classes: str = ""  # of its nouns


class Phrase(NamedTuple):
    """A noun phrase in both languages."""

    korean: str
    english: str
    person: str  # for English verb agreement: I, you, we, it or they
    objective: str = ""  # the English form as an object


class Clause(NamedTuple):
    """A subject and its predicate."""

    subject: Phrase  # without Korean for "there is"
    verb: Verb
    complements: tuple[tuple[str, str], ...]  # (Korean, English) pairs in English order
    tense: str
    negated: bool = False
    time: tuple[str, str] = ("", "")


def read_tables() -> dict[str, list[tuple[str, ...]]]:
    """Returns {table: rows} of lexicon.tsv; a line `[nouns]` starts the table of nouns."""
    tables = {}
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(tuple(line.split("\t")))
    return tables


TABLES = read_tables()
PRONOUNS = [Phrase(*row) for row in TABLES["pronouns"]]
NAMES = [Phrase(korean, english, "it", english) for korean, english in TABLES["names"]]
NOUNS = {}  # {class: its nouns}
for noun_class, *row in TABLES["nouns"]:
    NOUNS.setdefault(noun_class, []).append(Noun(*row))
STATES = [Verb(*row) for row in TABLES["states"]]
ACTIONS = [Verb(*row) for row in TABLES["actions"]]
TRANSFERS = [Verb(*row) for row in TABLES["transfers"]]
ACTIVITIES = [Verb(*row) for row in TABLES["activities"]]
MOTIONS = [Verb(*row) for row in TABLES["motions"]]
ADJECTIVES = [Verb(*row) for row in TABLES["adjectives"]]
# The classes of nouns that are persons, in the order of lexicon.tsv.
PERSONS = "kin job people"
PLACES = TABLES["places"]
VEHICLES = TABLES["vehicles"]
DETERMINERS = TABLES["determiners"]
POSSESSIVES = TABLES["possessives"] + [(f"{x.korean}의", f"{x.english}'s") for x in NAMES]
NUMERALS = TABLES["numerals"]
TENSES = ("past", "present", "future")
TIMES = {}  # {tense, or mood of a verb in the present: its times}
for when, *row in TABLES["times"]:
    TIMES.setdefault(when, []).append(tuple(row))
IRREGULAR_STEMS = {stem: forms for stem, *forms in TABLES["irregular stems"]}
IRREGULAR_PLURALS = dict(TABLES["irregular plurals"])
IRREGULAR_PASTS = dict(TABLES["irregular pasts"])
