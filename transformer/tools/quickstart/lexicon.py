"""The words of the built-in corpus, their forms, and a clause made of them in both languages."""

from collections.abc import Callable
from typing import NamedTuple


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
