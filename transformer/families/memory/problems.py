"""Items that need memory, drawn at random, and the arrays of a batch.

    copy     a b c | a b c       a sequence, a separator, the sequence again (Graves et al. 2014,
                                 "Neural Turing Machines", section 4.1)
    recall   k1 v1 k2 v2 k2 k1   keys with their values, then each key again in another order; the
                                 answers are the values v2 v1 (multi-query associative recall,
                                 Arora et al. 2023, "Zoology")

An item's length counts the symbols to remember: here 3 symbols, and 4 keys and values. The answers
are at the last positions of an item, one per position. With fewer keys than pairs, a longer item
would only repeat keys, so configs/memory.py:recall has keys for 512 symbols. Not in the paper of
Arora et al.: queries follow one another, without random positions and padding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Item = tuple[np.ndarray, np.ndarray]  # (tokens, answers), ids

PAD, SEPARATOR, FIRST_SYMBOL = 0, 1, 2


class Problem(NamedTuple):
    """A problem: draws items, and names symbols."""

    draw: Callable[[np.random.Generator, int, int], Item]  # (random, length, symbols)
    prefixes: tuple[str, ...]  # of the names of symbols, one per alphabet


def copy(random: np.random.Generator, length: int, symbols: int) -> Item:
    """Returns a sequence of `length` symbols, a separator, and the sequence to predict."""
    sequence = FIRST_SYMBOL + random.integers(symbols, size=length)
    # The answer at a position is the next token; at the separator, the first symbol.
    return np.concatenate([sequence, [SEPARATOR], sequence[:-1]]), sequence


def recall(random: np.random.Generator, length: int, symbols: int) -> Item:
    """Returns `length` / 2 pairs of a key and its value, and each key as a query.

    Keys and values have an alphabet of `symbols` each. Keys repeat only if there are more pairs
    than symbols: 10 pairs of 8 keys have all keys, and two repetitions.
    """
    pairs = length // 2
    value_of_key = symbols + random.integers(symbols, size=symbols)
    queries = random.permutation(symbols)[:pairs]
    repeated = random.choice(queries, pairs - len(queries))
    keys = random.permutation(np.concatenate([queries, repeated]))
    # [2, pairs] -> [pairs, 2] -> k1 v1 k2 v2 ...
    in_pairs = np.stack([keys, value_of_key[keys]]).T.ravel()
    tokens = np.concatenate([in_pairs, queries])
    return FIRST_SYMBOL + tokens, FIRST_SYMBOL + value_of_key[queries]


PROBLEMS = {"copy": Problem(copy, ("",)), "recall": Problem(recall, ("k", "v"))}


def row_length(problem: Problem, length: int, symbols: int) -> int:
    """Returns the number of tokens of an item, which any draw has: 2 * `length` in copying."""
    tokens, _ = problem.draw(np.random.default_rng(0), length, symbols)
    return len(tokens)


def text(ids: np.ndarray, problem: Problem, symbols: int) -> str:
    """Returns ids as text: '3 0 | 3' in copying, 'k3 v0 k3' in recall; '_' is padding."""
    names = ["_", "|", *(f"{prefix}{i}" for prefix in problem.prefixes for i in range(symbols))]
    return " ".join(names[i] for i in ids)


def assemble(
    draw: Callable[..., Item],
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple[int | None, int],
) -> dict:
    """Returns a batch of items, one per row: item draw(*key, i) for each i of `items`.

    It is {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of `shape` (rows,
    length). Weights are 1 at answers. Copying 7 8 in a row of 5:

        tokens       7  8  |  7  PAD
        positions    0  1  2  3  0
        segments     1  1  1  1  0
        targets      0  0  7  8  0
        weights      0  0  1  1  0
    """
    tokens, positions, segments, targets = np.zeros((4, *shape), np.int32)
    weights = np.zeros(shape, np.float32)
    for i, row in zip(items.tolist(), row_of_item.tolist(), strict=True):
        item, answers = draw(*key, i)
        end, first = len(item), len(item) - len(answers)
        tokens[row, :end] = item
        positions[row, :end] = np.arange(end)
        segments[row, :end] = 1
        targets[row, first:end] = answers
        weights[row, first:end] = 1
    inputs = {"tokens": tokens, "positions": positions, "segments": segments}
    return {"inputs": inputs, "targets": targets, "weights": weights}
