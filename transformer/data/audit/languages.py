"""Which side's language a line is in, by its trigrams of characters.

A trigram's evidence is log P(trigram | target side) - log P(trigram | source side), from counts of
the first pairs of a corpus; a line's is the sum over its trigrams. Cavnar and Trenkle (1994) tell
languages by the ranks of n-grams; the ratio of likelihoods needs no ranks, and only two languages
have to be told apart: those of the corpus itself.
"""

import numpy as np

BUCKETS = 1 << 16  # trigrams are hashed
MOST = 3.0  # nats: a rare trigram, such as of a name, decides little


def trigrams(codes: np.ndarray) -> np.ndarray:
    """Returns the bucket of each trigram of code points: 3 in "abcde", and 0 where it ends a line.

    The result has one number a code point, as if two line breaks followed.
    """
    padded = np.concatenate([codes, np.full(2, ord("\n"), codes.dtype)])
    first, second, third = padded[:-2], padded[1:-1], padded[2:]
    # Multiplicative hashing modulo 2^32, whose high bits are well mixed.
    mixed = first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA77)
    mixed = (mixed + third * np.uint32(0xC2B2AE3D)) * np.uint32(0x27D4EB2F)
    buckets = mixed >> np.uint32(16)
    within = (first != ord("\n")) & (second != ord("\n")) & (third != ord("\n"))
    return np.where(within, buckets, 0)


def count(codes: np.ndarray) -> np.ndarray:
    """Returns how often each bucket occurs in lines, [BUCKETS]."""
    return np.bincount(trigrams(codes), minlength=BUCKETS)


def table(source_counts: np.ndarray, target_counts: np.ndarray) -> np.ndarray:
    """Returns the evidence of each bucket for the target's language, [BUCKETS], in nats."""
    smoothed = [counts + 0.5 for counts in (source_counts, target_counts)]
    for counts in smoothed:
        counts[0] = 0.5  # of no trigram
    source, target = (np.log(counts / counts.sum()) for counts in smoothed)
    evidence = np.clip(target - source, -MOST, MOST)
    evidence[0] = 0
    return evidence.astype(np.float32)


def evidence(codes: np.ndarray, starts: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Returns the evidence of each line for the target's language, [lines], in nats."""
    return np.add.reduceat(table[trigrams(codes)], starts)
