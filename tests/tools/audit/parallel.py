"""Parallel text of two toy languages, in which faults can be planted."""

import random

from transformer.tools.audit import line_measures

SYLLABLES = (
    ("ka", "lo", "mi", "ten", "sur", "ba", "rel", "onu", "fi", "dak"),
    ("schu", "wen", "grat", "ich", "bul", "zei", "ver", "hof", "nung", "pfa"),
)


def pairs(count, seed=0):
    """Different sentence pairs as [[source, target], ...]; a word has the same length in both
    languages, give or take a syllable, and a twentieth of the pairs have a number."""
    chosen = random.Random(seed)
    words = [
        tuple("".join(chosen.choices(side, k=k + chosen.randint(0, 1))) for side in SYLLABLES)
        for k in chosen.choices((1, 2, 3), k=400)
    ]
    result = {}
    while len(result) < count:
        sentence = chosen.choices(words, k=chosen.randint(2, 20))
        end = chosen.choice(".....?!")
        number = f" {chosen.randint(10, 9999)}" if chosen.random() < 0.05 else ""
        source, target = (" ".join(word[side] for word in sentence) for side in (0, 1))
        result[f"{source}{number}{end}", f"{target}{number}{end}"] = None
    return [list(pair) for pair in result]


def scanned(pairs, *, codes=("xx", "yy"), max_length=128, pieces=None):
    """The `Lines` of the source and of the target; the toy languages are none that is known."""
    encoded = [(a.encode(), b.encode()) for a, b in pairs]
    texts = lambda: iter(encoded)
    expected = [
        line_measures.Expected(languages, script, max_length, pieces)
        for languages, script in zip(
            (codes, codes[::-1]), line_measures.side_scripts(texts), strict=True
        )
    ]
    return line_measures.scan(texts, expected, lambda count: None)[:2]
