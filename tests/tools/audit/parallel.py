"""Parallel text of two toy languages, in which faults can be planted."""

import random

from transformer.tools.audit import line_measures, scripts

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


def texts(pairs):
    """What `lines.scan` reads: a function that gives all pairs as bytes."""
    encoded = [(a.encode(), b.encode()) for a, b in pairs]
    return lambda: iter(encoded)


def readers(pairs, *, codes=("xx", "yy"), max_length=128, pieces=None):
    """What the lines of each side are compared with; the toy languages are none that is known."""
    spelling = pieces and scripts.Spelling(pieces.processor)
    return [
        line_measures.Reader(languages, script, max_length, pieces, spelling)
        for languages, script in zip(
            (codes, codes[::-1]), line_measures.side_scripts(texts(pairs), codes), strict=True
        )
    ]


def scanned(pairs, **options):
    """The `Lines` of the source and of the target."""
    source, target, _ = line_measures.scan(
        texts(pairs), readers(pairs, **options), lambda count: None
    )
    return source, target
