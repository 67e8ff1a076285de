"""Sub-words of Korean: what the size of a vocabulary, and decomposed Hangul, do to a verb."""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from docs.tour import picture, tiny
from transformer.data.tokenizer import END, Pieces, normalised
from transformer.tools.quickstart import grammar, lexicon
from transformer.tools.quickstart.morphology import infinitive, predicate, prospective

# The last two forms are not in the text.
STEM, FORMS = "먹", ("먹어", "먹고", "먹을", "먹었어", "먹는", "먹었습니다")
UNITS = {"nfc": "syllables", "nfd": "jamo"}
SIZES = (350, 400, 530, 600, 700, 800, 900, 1000, 1200, 1500, 2000)
SHOWN = (530, 800, 1200)
BYTES = 256 + 4  # and the special symbols: they are in every vocabulary
KINDS = ("the stem", "stem and ending", "other piece", "one byte")
BELOW = {"sort": None, "title": None, "legend": {"orient": "bottom"}}
COLOURS = (picture.BLUE, picture.ORANGE, picture.GREY, "#e3e6ea")


def vocabulary(texts: Sequence[str], size: int, form: str) -> Pieces:
    """Returns pieces learnt from texts in a Unicode form, to which they bring what they read."""
    pieces = tiny.vocabulary([(text,) for text in normalised(texts, form)], size)
    return dataclasses.replace(pieces, normalisation=form)


def inflected() -> Iterator[tuple[str, str]]:
    """Yields (stem, word): each verb of the built-in corpus, with six endings."""
    kinds = ("states", "actions", "transfers", "activities", "motions")
    stems = {stem.split()[-1] for kind in kinds for stem, *_ in lexicon.TABLES[kind]}
    for stem in sorted(stems):
        a, past, will = infinitive(stem), predicate(stem, "past"), prospective(stem)
        yield from ((stem, word) for word in (a, a + "야", past, will, stem + "고", stem + "지"))


def kept(pieces: Pieces, stem: str, word: str) -> bool:
    """Returns whether the word's first piece is its stem, no more and no less."""
    bare = (piece.lstrip("▁") for piece, _ in pieces.surfaces(word))
    return [next(filter(None, bare))] == normalised([stem], pieces.normalisation)


def per_word(pieces: Pieces, texts: Sequence[str]) -> float:
    """Returns the mean number of pieces of a word."""
    ids = itertools.chain(*pieces.encode(texts))
    return sum(i != END for i in ids) / len(" ".join(texts).split())


def boxes(pieces: Pieces, word: str, label: str) -> list[dict]:
    """Returns the pieces of a word, side by side; a byte is named by its two digits."""
    rows, end = [], 0
    for piece, _ in pieces.surfaces(word):
        is_byte, bare = piece.startswith("<0x"), piece.lstrip("▁")
        kind = KINDS[3 if is_byte else 0 if bare == STEM else 1 if STEM in bare else 2]
        start, end = end, end + (1 if is_byte else len(piece))
        place = {"start": start, "end": end, "middle": (start + end) / 2}
        rows.append({"word": label, "text": piece[3:5] if is_byte else piece, "is": kind, **place})
    return rows


def drawn(rows: list[dict], title: str, width: int, labels: bool = True) -> picture.Chart:
    """Returns a chart of boxes, a word a row."""
    x = {"field": "start", "type": "quantitative", "axis": None}
    axis = {"domain": False, "ticks": False, "minExtent": 60} if labels else None
    y = {"field": "word", "type": "nominal", "sort": None, "title": None, "axis": axis}
    color = {"field": "is", "scale": {"domain": KINDS, "range": COLOURS}, **BELOW}
    box = {"type": "rect", "stroke": "white", "strokeWidth": 2, "fillOpacity": 0.5}
    text = {"text": {"field": "text"}, "x": {**x, "field": "middle"}}
    boxed = {"mark": box, "encoding": {"x": x, "x2": {"field": "end"}, "color": color}}
    named = {"mark": {"type": "text", "fontSize": 10}, "encoding": text}
    chart = {"title": title, "width": width, "height": {"step": 25}, "data": {"values": rows}}
    return {**chart, "encoding": {"y": y}, "layer": [boxed, named]}


def show() -> picture.Chart:
    """Returns a verb's pieces by size, the share of stems kept whole, and what NFD becomes."""
    corpus, pairs, shares, learnt = grammar.sentence_pairs(), [*inflected()], [], {}
    texts, unseen = ([korean for korean, _ in corpus[part]] for part in ("train", "validation"))
    words = collections.Counter(" ".join(texts).split())
    print("times in the text:", ", ".join(f"{word} {words[word]}" for word in FORMS))
    for form, unit in UNITS.items():
        begins = [word.startswith(stem) for stem, word in (normalised(x, form) for x in pairs)]
        alphabet = len(set("".join(normalised(texts, form))))
        whole = sum(begins) / len(begins)
        print(f"{unit}: {alphabet} characters, {whole:.0%} of the words begin with their stem")
        for size in (size for size in SIZES if size >= BYTES + alphabet):
            pieces = learnt[form, size] = vocabulary(texts, size, form)
            share = sum(kept(pieces, *pair) for pair in pairs) / len(pairs)
            print(f"{size:6}: {per_word(pieces, unseen):.2f} pieces a word, {share:.0%} of stems")
            shares.append({"pieces": size, "of": unit, "share": share})
    grid = []
    for size in SHOWN:
        rows = [row for word in FORMS for row in boxes(learnt["nfc", size], word, word)]
        grid.append(drawn(rows, f"{size:,} pieces", 155, size == SHOWN[0]))

    composing = learnt["nfc", SHOWN[-1]]
    bare = dataclasses.replace(composing, normalisation="")
    for name, pieces in {"as it is": bare, "after NFC": composing}.items():
        rates = [per_word(pieces, normalised(unseen, form)) for form in UNITS]
        print("{}: composed {:.2f} pieces a word, decomposed {:.2f}".format(name, *rates))
    [word], [decomposed] = FORMS[:1], normalised(FORMS[:1], "nfd")
    rows = boxes(bare, word, f"{word}, composed") + boxes(bare, decomposed, f"{word}, decomposed")
    rows += boxes(composing, decomposed, "the same after NFC")
    strip = drawn(rows, f"Decomposed Hangul, {SHOWN[-1]:,} pieces", 255)
    x = {"field": "pieces", "type": "quantitative", "title": "pieces in the vocabulary"}
    x |= {"scale": {"type": "log", "domain": [330, 2100]}, "axis": {"values": [350, *SHOWN, 2000]}}
    y = {"field": "share", "type": "quantitative", "title": None, "axis": {"format": "%"}}
    line = {
        **{"title": "Forms in which the stem is one piece", "width": 200, "height": 170},
        **{"data": {"values": shares}, "mark": {"type": "line", "point": True}},
        "encoding": {"x": x, "y": y, "strokeDash": {"field": "of", **BELOW}},
    }
    return {"vconcat": [{"hconcat": grid}, {"hconcat": [line, strip]}]}
