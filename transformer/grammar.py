"""The grammar and lexicon behind the built-in Korean-English corpus, one meaning per sentence.

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
from collections.abc import Callable
from typing import NamedTuple

SEED = 0
SIZES = {"test": 500, "validation": 500, "train": 24_000}
MAX_WORDS = 12  # of a Korean sentence
HELD_OUT = ("나는 사과를 좋아해", "I like apples")  # the README translates it: in no split


class Noun(NamedTuple):
    korean: str
    english: str
    counter: str = ""  # a mass noun has none


class Verb(NamedTuple):
    """A verb or adjective: Korean stem, English base form, the noun classes it goes with."""

    stem: str
    english: str
    classes: str = ""


class Phrase(NamedTuple):
    """A noun phrase; its English verb agrees with the pronoun `person`: I, you, we, it or they."""

    korean: str
    english: str
    person: str
    objective: str = ""  # the English form as an object


class Clause(NamedTuple):
    """A subject and its predicate; `complements` are (Korean, English) pairs in English order."""

    subject: Phrase  # without Korean for "there is"
    verb: Verb
    complements: tuple[tuple[str, str], ...]
    tense: str
    negated: bool = False
    time: tuple[str, str] = ("", "")


# Lexicon: rows end with a comma or the line, fields with a colon.


def fields(*texts: str) -> tuple[str, ...]:
    return texts


def rows(table: str, entry: Callable = fields) -> tuple:
    lines = (line.strip() for line in table.replace("\n", ",").split(","))
    return tuple(entry(*line.split(":")) for line in lines if line)


PRONOUNS = rows("나:I:I:me, 너:you:you:you, 그:he:it:him, 그녀:she:it:her", Phrase)
PRONOUNS += rows("우리:we:we:us, 그들:they:they:them", Phrase)
NAMES = rows("톰:Tom, 존:John, 마이클:Michael, 메리:Mary, 안나:Anna, 민수:Minsu, 유나:Yuna")
NAMES = tuple(Phrase(korean, english, "it", english) for korean, english in NAMES)
NOUNS = {
    "kin": rows("친구:friend:명, 이웃:neighbor:명, 사촌:cousin:명", Noun),
    "job": rows(
        "학생:student:명, 의사:doctor:명, 간호사:nurse:명, 가수:singer:명, 군인:soldier:명", Noun
    ),
    "people": rows("아이:child:명, 남자:man:명, 여자:woman:명", Noun),
    "animal": rows(
        "개:dog:마리, 고양이:cat:마리, 새:bird:마리, 토끼:rabbit:마리, 말:horse:마리", Noun
    ),
    "fruit": rows("사과:apple:개, 오렌지:orange:개, 바나나:banana:개, 딸기:strawberry:개", Noun),
    "crop": rows("감자:potato:개, 당근:carrot:개, 달걀:egg:개", Noun),
    "dish": rows("빵:bread, 김치:kimchi, 치즈:cheese, 수프:soup", Noun),
    "staple": rows("밥:rice, 고기:meat", Noun),
    "drink": rows("물:water, 우유:milk, 커피:coffee, 주스:juice", Noun),
    "book": rows("책:book:권, 소설:novel:권", Noun),
    "letter": rows("편지:letter:통, 시:poem:편", Noun),
    "show": rows("영화:movie:편, 드라마:drama:편", Noun),
    "picture": rows("그림:picture:장", Noun),
    "photograph": rows("사진:photograph:장", Noun),
    "song": rows("노래:song:곡", Noun),
    "music": rows("음악:music", Noun),
    "goods": rows("모자:hat:개, 가방:bag:개, 의자:chair:개, 시계:watch:개, 우산:umbrella:개", Noun),
    "vehicle": rows("자전거:bicycle:대, 자동차:car:대", Noun),
    "plant": rows("꽃:flower:송이, 나무:tree:그루", Noun),
    "study": rows("한국어:Korean, 영어:English, 수학:math, 역사:history", Noun),
}
PERSONS = "kin job people"
EDIBLE = "fruit crop dish staple"
WARES = f"{EDIBLE} drink book goods vehicle plant"
TASTES = f"{PERSONS} animal {EDIBLE} drink book show song music plant study"
STATES = rows(f"좋아하:like:{TASTES}, 싫어하:hate:{TASTES}, 사랑하:love:kin people animal", Verb)
ACTIONS = rows(
    f"""먹:eat:{EDIBLE}, 마시:drink:drink, 만들:make:dish goods, 고치:fix:goods vehicle
    사:buy:{WARES}, 팔:sell:{WARES}, 고르:choose:fruit crop book goods vehicle plant
    빌리:borrow:book goods vehicle, 읽:read:book letter, 쓰:write:book letter, 보:watch:show
    그리:draw:picture animal plant, 찍:take:photograph, 듣:listen to:song music, 부르:sing:song
    배우:learn:study, 가르치:teach:study, 만나:meet:{PERSONS}, 돕:help:{PERSONS}
    기다리:wait for:{PERSONS}""",
    Verb,
)
TRANSFERS = rows(
    """주:give:fruit crop dish drink book picture photograph goods plant, 가르치:teach:study
    보내:send:letter photograph book goods, 보여 주:show:picture photograph book goods""",
    Verb,
)
ACTIVITIES = rows(
    "자:sleep, 울:cry, 놀:play, 쉬:rest, 일하:work, 춤추:dance, 수영하:swim, 걷:walk, 뛰:run", Verb
)
MOTIONS = rows("가:go, 오:come", Verb)
SIZED = "animal fruit crop goods vehicle plant"
ADJECTIVES = rows(
    f"""크:big:{SIZED}, 작:small:{SIZED}, 귀엽:cute:animal, 빠르:fast:animal vehicle
    비싸:expensive:{EDIBLE} drink book goods vehicle, 싸:cheap:{EDIBLE} drink book goods vehicle
    맛있:delicious:{EDIBLE} drink, 차갑:cold:drink, 무겁:heavy:goods book, 가볍:light:goods book
    예쁘:pretty:goods plant, 아름답:beautiful:plant picture photograph song music
    재미있:interesting:book show, 지루하:boring:book show
    길:long:letter book show song, 짧:short:letter book show song
    빨갛:red:goods vehicle, 하얗:white:goods vehicle animal, 젊:young:job, 유명하:famous:job
    친절하:kind:{PERSONS}, 똑똑하:smart:{PERSONS} animal, 바쁘:busy:{PERSONS}
    행복하:happy:{PERSONS}, 슬프:sad:{PERSONS}""",
    Verb,
)
PLACES = rows(
    """집:home:at home, 학교:to school:at school, 공원:to the park:in the park
    도서관:to the library:at the library, 시장:to the market:at the market
    병원:to the hospital:at the hospital, 식당:to the restaurant:at the restaurant
    카페:to the cafe:at the cafe, 바닷가:to the beach:at the beach, 도시:to the city:in the city"""
)
VEHICLES = rows("버스:by bus, 기차:by train, 지하철:by subway, 자전거:by bicycle")
DETERMINERS = rows("그:the, 이:this, 저:that")
POSSESSIVES = rows("내:my, 너의:your, 우리:our")
POSSESSIVES += tuple((f"{name.korean}의", f"{name.english}'s") for name in NAMES)
NUMERALS = rows("한:a, 두:two, 세:three, 네:four")
TENSES = ("past", "present", "future")
TIMES = {
    "past": rows("어제:yesterday, 오늘:today, 지난주에:last week"),
    "habit": rows("매일:every day, 아침에:in the morning, 저녁에:in the evening"),
    "progressive": rows("지금:now"),
    "modal": rows("오늘:today, 내일:tomorrow"),
    "future": rows("내일:tomorrow, 오늘:today, 다음 주에:next week"),
}

# Korean morphology. A syllable's code is 0xAC00 + (onset * 21 + vowel) * 28 + batchim.

NIEUN, RIEUL, SSANGSIOS = 4, 8, 20
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
CONTRACTIONS = dict(zip("ㅏㅐㅓㅗㅜㅣ", "ㅏㅐㅓㅘㅝㅕ", strict=True))  # last vowel + 아/어
IRREGULAR = {  # stem: infinitive, prospective
    stem: forms
    for stem, *forms in rows(
        """듣:들어:들을, 걷:걸어:걸을, 돕:도와:도울, 부르:불러:부를, 고르:골라:고를, 빠르:빨라:빠를
        빨갛:빨개:빨갈, 하얗:하얘:하얄, 귀엽:귀여워:귀여울, 차갑:차가워:차가울, 무겁:무거워:무거울
        가볍:가벼워:가벼울, 아름답:아름다워:아름다울"""
    )
}


def batchim(word: str) -> int:
    """The final consonant of the last syllable; 0 for an open one."""
    return (ord(word[-1]) - 0xAC00) % 28


def vowel(word: str) -> str:
    return VOWELS[(ord(word[-1]) - 0xAC00) // 28 % 21]


def shift(word: str, distance: int) -> str:
    return word[:-1] + chr(ord(word[-1]) + distance)


def attach(word: str, particle: str) -> str:
    """`word` with the fitting form of a particle "after a consonant/after a vowel"."""
    closed, opened = particle.split("/")
    is_open = batchim(word) == 0 or (opened == "로" and batchim(word) == RIEUL)
    return word + (opened if is_open else closed)


def infinitive(stem: str) -> str:
    """먹 -> 먹어, 가 -> 가, 마시 -> 마셔, 크 -> 커: what present and past build on."""
    if stem in IRREGULAR:
        return IRREGULAR[stem][0]
    if stem.endswith("하"):
        return stem[:-1] + "해"
    last = vowel(stem)
    if batchim(stem):
        return stem + ("아" if last in "ㅏㅗ" else "어")
    if last == "ㅡ":  # drops, and the syllable before it decides: 바쁘 -> 바빠, 예쁘 -> 예뻐
        merged = "ㅏ" if len(stem) > 1 and vowel(stem[:-1]) in "ㅏㅗ" else "ㅓ"
    elif last in CONTRACTIONS:
        merged = CONTRACTIONS[last]
    else:
        return stem + "어"
    return shift(stem, 28 * (VOWELS.index(merged) - VOWELS.index(last)))


def prospective(stem: str) -> str:
    """먹 -> 먹을, 가 -> 갈, 만들 -> 만들: before 거야 (will) and 수 있어 (can)."""
    if stem in IRREGULAR:
        return IRREGULAR[stem][1]
    if batchim(stem) == 0:
        return shift(stem, RIEUL)
    return stem if batchim(stem) == RIEUL else stem + "을"


def adnominal(stem: str) -> str:
    """크 -> 큰, 작 -> 작은, 맛있 -> 맛있는: an adjective before its noun."""
    return stem + "는" if stem.endswith("있") else shift(prospective(stem), NIEUN - RIEUL)


def predicate(stem: str, tense: str, negated: bool = False, link: str = "") -> str:
    """The conjugated end of a clause; a `link`, 고 (and) or 지만 (but), leads to another clause."""
    if negated:
        stem = stem[:-1] + "없" if stem == "있" or stem.endswith("수 있") else stem + "지 않"
    if tense == "future":
        return prospective(stem) + " 거" + (link or "야")
    if tense == "past":
        return shift(infinitive(stem), SSANGSIOS) + (link or "어")
    return stem + link if link else infinitive(stem)


# English morphology

PLURALS = dict(rows("child:children, man:men, woman:women, this:these, that:those"))
PASTS = dict(
    rows(
        """eat:ate, drink:drank, buy:bought, sell:sold, make:made, choose:chose, read:read
        write:wrote, draw:drew, take:took, sing:sang, teach:taught, meet:met, give:gave, send:sent
        sleep:slept, swim:swam, run:ran, go:went, come:came, have:had"""
    )
)
BE = {"I": ("am", "was"), "it": ("is", "was")}


def suffix(word: str, ending: str) -> str:
    """potato -> potatoes, cry -> cries, cry -> cried, make -> making, swim -> swimming."""
    if ending == "ing":
        return (word + word[-1] if word in ("swim", "run") else word.removesuffix("e")) + ending
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "i" + ("es" if ending == "s" else ending)
    if ending == "s":
        return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")
    return word.removesuffix("e") + ending


def plural(noun: str) -> str:
    return PLURALS.get(noun) or suffix(noun, "s")


def finite(verb: str, person: str, tense: str, emphatic: bool) -> tuple[str, str]:
    """(auxiliary, rest) of an English verb; `emphatic`, negated or asked, it needs an auxiliary."""
    head, _, rest = verb.partition(" ")
    is_past = tense == "past"
    if tense == "future":
        return "will", verb
    if head == "be":
        return BE.get(person, ("are", "were"))[is_past], rest
    if head == "can":
        return "could" if is_past else "can", rest
    if emphatic:
        return "did" if is_past else "does" if person == "it" else "do", verb
    if is_past:
        head = PASTS.get(head) or suffix(head, "ed")
    elif person == "it":
        head = "has" if head == "have" else suffix(head, "s")
    return "", f"{head} {rest}"


def join(*words: str) -> str:
    return " ".join(" ".join(words).split())


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


def translation(
    clause: Clause, *, question: bool = False, time_first: bool = False, link: str = ""
) -> tuple[str, str]:
    """The clause in Korean and English; `link` gives the Korean a connective ending."""
    subject, verb, complements, tense, negated, time = clause
    topic = [attach(subject.korean, "은/는")] if subject.korean else []
    topic.insert(0 if time_first else 1, time[0])
    mirrored = [korean for korean, _ in reversed(complements)]
    korean = join(*topic, *mirrored, predicate(verb.stem, tense, negated, link))
    auxiliary, rest = finite(verb.english, subject.person, tense, negated or question)
    start = (auxiliary, subject.english) if question else (subject.english, auxiliary)
    objects = [english for _, english in complements]
    english = join(*start, "not" * negated, rest, *objects, time[1]).replace("can not", "cannot")
    return (korean + "?", english + "?") if question else (korean, english)


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
