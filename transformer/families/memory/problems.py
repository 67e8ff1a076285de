"""Items that need memory, drawn from numbers alone, and the arrays of a batch.

    copy     a b c | a b c       a sequence, a separator, the sequence again (Graves et al. 2014,
                                 "Neural Turing Machines", section 4.1)
    recall   k1 v1 k2 v2 k2 k1   keys with their values, then each key once more, in another order,
                                 to be answered by its value: v2 v1 (multi-query associative
                                 recall, Arora et al. 2023, "Zoology")

An item's length is that of what is to be remembered: 3 symbols, and 4 keys and values, here. The
answers belong to the last positions of an item, an answer a position. With fewer keys than pairs,
a longer item would only repeat them: configs/memory.py:recall has keys for 512 symbols. Departure
from Arora et al., whose queries stand at random positions among padding: here they follow one
another.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Item = tuple[np.ndarray, np.ndarray]  # (tokens, answers), ids

PAD, SEPARATOR, FIRST_SYMBOL = 0, 1, 2


class Problem(NamedTuple):
    """How the items of a problem are drawn, and what their symbols are called."""

    draw: Callable[[np.random.Generator, int, int], Item]  # (random, length, symbols)
    prefixes: tuple[str, ...]  # of the names of symbols, one for each alphabet


def copy(random: np.random.Generator, length: int, symbols: int) -> Item:
    """Returns a sequence of `length` symbols, a separator, and the sequence to be predicted."""
    sequence = FIRST_SYMBOL + random.integers(symbols, size=length)
    # The answer at a position is the token after it: the separator is answered by the first symbol.
    return np.concatenate([sequence, [SEPARATOR], sequence[:-1]]), sequence


def recall(random: np.random.Generator, length: int, symbols: int) -> Item:
    """Returns `length` / 2 pairs of a key and its value, and each key as a query.

    Keys and values have an alphabet of `symbols` each. The keys differ while there are enough of
    them: 10 pairs of 8 keys have all keys, two of them twice or one of them three times.
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
    """Returns the tokens of an item, which do not depend on the draw: of copying 2 * `length`."""
    tokens, _ = problem.draw(np.random.default_rng(0), length, symbols)
    return len(tokens)


def text(ids: np.ndarray, problem: Problem, symbols: int) -> str:
    """Returns ids as text: '3 0 | 3' of copying, 'k3 v0 k3' of recall; '_' is padding."""
    names = ["_", "|"]
    names += [f"{prefix}{i}" for prefix in problem.prefixes for i in range(symbols)]
    return " ".join(names[i] for i in ids)


def assemble(
    draw: Callable[..., Item],
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple[int | None, int],
) -> dict:
    """Returns a batch of items, one a row: item draw(*key, i) for each i of `items`.

    {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of `shape` (rows,
    length); weights are 1 where an answer is asked. Copying 7 8 in a row of 5:

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
        tokens[row, :end], positions[row, :end], segments[row, :end] = item, np.arange(end), 1
        targets[row, first:end], weights[row, first:end] = answers, 1
    inputs = {"tokens": tokens, "positions": positions, "segments": segments}
    return {"inputs": inputs, "targets": targets, "weights": weights}
