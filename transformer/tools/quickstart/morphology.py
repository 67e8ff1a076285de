"""Inflects Korean and English words, and builds clauses in both languages."""

from transformer.tools.quickstart.lexicon import (
    IRREGULAR_PASTS,
    IRREGULAR_PLURALS,
    IRREGULAR_STEMS,
    Clause,
)

# Korean. A syllable's code is 0xAC00 + (onset * 21 + vowel) * 28 + batchim: 한 has onset 18, vowel
# 0 and batchim 4; its code + 16 is 핬, with batchim 20.

NIEUN, RIEUL, SSANGSIOS = 4, 8, 20  # numbers of the batchim ㄴ, ㄹ and ㅆ
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
# A stem's final vowel contracts with the 아 or 어 of an ending: 오 + 아 is 와.
CONTRACTIONS = {"ㅏ": "ㅏ", "ㅐ": "ㅐ", "ㅓ": "ㅓ", "ㅗ": "ㅘ", "ㅜ": "ㅝ", "ㅡ": "ㅓ", "ㅣ": "ㅕ"}


def batchim(word: str) -> int:
    """Returns the number of the last syllable's final consonant; 0 for an open syllable."""
    return (ord(word[-1]) - 0xAC00) % 28


def vowel(word: str) -> str:
    """Returns the vowel of the last syllable."""
    return VOWELS[(ord(word[-1]) - 0xAC00) // 28 % 21]


def shift(word: str, distance: int) -> str:
    """Returns a word with `distance` added to the code of its last syllable."""
    return word[:-1] + chr(ord(word[-1]) + distance)


def attach(word: str, particle: str) -> str:
    """Returns a word with the fitting form of a particle, "after a consonant/after a vowel"."""
    closed, opened = particle.split("/")
    is_open = batchim(word) == 0 or (opened == "로" and batchim(word) == RIEUL)
    return word + (opened if is_open else closed)


def infinitive(stem: str) -> str:
    """Returns the base of present and past: 먹 -> 먹어, 가 -> 가, 마시 -> 마셔, 크 -> 커."""
    if stem in IRREGULAR_STEMS:
        return IRREGULAR_STEMS[stem][0]
    if stem.endswith("하"):
        return stem[:-1] + "해"
    last = vowel(stem)
    if batchim(stem) or last not in CONTRACTIONS:
        return stem + ("아" if last in "ㅏㅗ" else "어")
    merged = CONTRACTIONS[last]
    # A final ㅡ drops, and the syllable before it decides: 바쁘 -> 바빠, 예쁘 -> 예뻐.
    if last == "ㅡ" and len(stem) > 1 and vowel(stem[:-1]) in "ㅏㅗ":
        merged = "ㅏ"
    # Successive vowels are 28 codes apart: 오 has ㅗ, number 8; 와 has ㅘ, number 9.
    return shift(stem, 28 * (VOWELS.index(merged) - VOWELS.index(last)))


def prospective(stem: str) -> str:
    """Returns the form before 거야 (will) and 수 있어 (can): 먹 -> 먹을, 가 -> 갈, 만들 -> 만들."""
    if stem in IRREGULAR_STEMS:
        return IRREGULAR_STEMS[stem][1]
    if batchim(stem) == 0:
        return shift(stem, RIEUL)
    return stem if batchim(stem) == RIEUL else stem + "을"


def adnominal(stem: str) -> str:
    """Returns an adjective's form before its noun: 크 -> 큰, 작 -> 작은, 맛있 -> 맛있는."""
    return stem + "는" if stem.endswith("있") else shift(prospective(stem), NIEUN - RIEUL)


def predicate(stem: str, tense: str, negated: bool = False, link: str = "") -> str:
    """Returns the conjugated end of a clause.

    A `link`, 고 (and) or 지만 (but), leads to another clause.
    """
    if negated:
        stem = stem[:-1] + "없" if stem == "있" or stem.endswith("수 있") else stem + "지 않"
    if tense == "future":
        return prospective(stem) + " 거" + (link or "야")
    if tense == "past":
        return shift(infinitive(stem), SSANGSIOS) + (link or "어")
    return stem + link if link else infinitive(stem)


# English

BE = {"I": ("am", "was"), "it": ("is", "was")}  # the other persons: are, were


def suffix(word: str, ending: str) -> str:
    """Returns a word with s, ed or ing: potatoes, cries, cried, making, swimming."""
    if ending == "ing":
        return (word + word[-1] if word in ("swim", "run") else word.removesuffix("e")) + ending
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "i" + ("es" if ending == "s" else ending)
    if ending == "s":
        return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")
    return word.removesuffix("e") + ending


def plural(noun: str) -> str:
    """Returns the plural of a noun, or of this and that."""
    return IRREGULAR_PLURALS.get(noun) or suffix(noun, "s")


def finite(verb: str, person: str, tense: str, emphatic: bool) -> tuple[str, str]:
    """Returns an English verb's auxiliary, "" if there is none, and the rest.

    If negated or in a question (`emphatic`), verbs except be, can and will need the auxiliary do.
    """
    head, _, rest = verb.partition(" ")
    is_past = tense == "past"
    if tense == "future":
        return "will", verb
    if head == "be":
        return BE.get(person, ("are", "were"))[is_past], rest
    if head == "can":
        return "could" if is_past else "can", rest
    if emphatic:
        present = "does" if person == "it" else "do"
        return "did" if is_past else present, verb
    if is_past:
        head = IRREGULAR_PASTS.get(head) or suffix(head, "ed")
    elif person == "it":
        head = "has" if head == "have" else suffix(head, "s")
    return "", f"{head} {rest}"


def join(*words: str) -> str:
    """Returns the words joined by single spaces, without empty ones."""
    return " ".join(" ".join(words).split())


def translation(
    clause: Clause, *, question: bool = False, time_first: bool = False, link: str = ""
) -> tuple[str, str]:
    """Returns a clause in Korean and English; `link` gives the Korean a connective ending."""
    subject, verb, complements, tense, negated, time = clause
    topic = [attach(subject.korean, "은/는")] if subject.korean else []
    topic.insert(0 if time_first else 1, time[0])
    # Korean has the complements in reverse English order, then the verb.
    mirrored = [korean for korean, _ in reversed(complements)]
    korean = join(*topic, *mirrored, predicate(verb.stem, tense, negated, link))
    auxiliary, rest = finite(verb.english, subject.person, tense, negated or question)
    # A question starts with the auxiliary: you like -> do you like.
    start = (auxiliary, subject.english) if question else (subject.english, auxiliary)
    objects = [english for _, english in complements]
    english = join(*start, "not" * negated, rest, *objects, time[1]).replace("can not", "cannot")
    return (korean + "?", english + "?") if question else (korean, english)
