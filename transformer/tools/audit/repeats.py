"""Lines and pairs that occur several times, by the hashes of their text.

Keys are 64-bit hashes: among 4.5 million lines two different ones have the same key with a
probability of one in a million.
"""

import numpy as np


def pair_keys(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Hashes each pair of keys to one key, int64; (a, b) and (b, a) differ."""
    mixed = source.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) + target.view(np.uint64)
    return (mixed * np.uint64(0xBF58476D1CE4E5B9)).view(np.int64)


def first_of(keys: np.ndarray) -> np.ndarray:
    """Returns the first line with the same key as each: 7 8 7 7 gives 0 1 0 0."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first[inverse]


def have_several(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns for each line whether its key occurs with different `others`, bool."""
    # Sorted by (key, other), equal ones are adjacent: each distinct pair is counted once a key.
    order = np.lexsort((others, keys))
    keys, others = keys[order], others[order]
    new_key = np.append(True, keys[1:] != keys[:-1])
    new_pair = new_key | np.append(True, others[1:] != others[:-1])
    group = np.cumsum(new_key) - 1
    result = np.zeros(len(keys), bool)
    result[order] = np.bincount(group, new_pair)[group] > 1
    return result
