"""Texts -> the arrays of a batch: with a class per row, or with masked tokens, also packed.

The model's inputs are int [rows, length]: `ids`, `positions`, from 0 in each text, and `segments`,
which number a row's texts from 1. All are 0 on padding.
"""

import numpy as np

from transformer.data import packing, pairs
from transformer.data.tokenizer import FIRST_PIECE, START, UNKNOWN, Pieces
from transformer.data.tokens import Side

# The id of a masked token. No text has it, because unknown characters fall back to bytes, and
# masked_language.py refuses a vocabulary without fallback.
MASK = UNKNOWN
KEPT, REPLACED = 0.1, 0.1  # of the masked tokens; the rest become MASK (Devlin et al. 2019, 3.1)


def inputs(
    side: Side, items: np.ndarray, row_of_item: np.ndarray, shape: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Returns the model's inputs: text items[i] in row row_of_item[i], which is sorted.

    A text starts with START, whose vector may represent the text, and has no END. Example: the
    texts [7 8 END] and [9 END] in a row of 6:

        ids        START 7  8    START 9    PAD
        positions  0     1  2    0     1    0
        segments   1     1  1    2     2    0
    """
    # Shift right: each text loses its END, and START enters at position 0.
    ids, positions, segments = pairs.lay(side, items, row_of_item, shape)
    shifted = np.roll(ids, 1)
    shifted[positions == 0] = START
    return {"ids": np.where(segments > 0, shifted, 0), "positions": positions, "segments": segments}


def shorten(side: Side, max_length: int) -> Side:
    """Returns texts truncated to `max_length` ids, in memory."""
    lengths = np.minimum(side.lengths, max_length)
    # Flat indices of each text's first ids: offsets 0 4 6 with lengths 3 2 keep 0 1 2, 4 5.
    kept = packing.concatenate_ranges(side.offsets[:-1], lengths)
    return Side(np.asarray(side.ids)[kept], np.concatenate([[0], np.cumsum(lengths)]))


def one_row(items: list[list[int]], length: int) -> dict[str, np.ndarray]:
    """Returns the inputs [length] of a row of texts that end with END."""
    side = Side(np.concatenate(items), np.cumsum([0, *map(len, items)]))
    row_of_item = np.zeros(len(items), int)
    arrays = inputs(side, np.arange(len(items)), row_of_item, (1, length))
    return {name: x[0] for name, x in arrays.items()}


def encode_row(lines: list[str], vocabulary: Pieces, max_length: int) -> dict[str, np.ndarray]:
    """Returns the inputs of one text, or of two, in a row as long as in training.

    Each text is truncated to its share of `max_length` ids.
    """
    items = [ids[: max_length // len(lines)] for ids in vocabulary.encode(lines)]
    # The shortest static length that fits, as in `packing.one_per_row`.
    lengths = packing.static_lengths(max_length, max_length)
    return one_row(items, next(length for length in lengths if length >= sum(map(len, items))))


# Texts with targets, such as classes.


def labelled(
    side: Side,
    targets: np.ndarray,
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple = (),
) -> dict:
    """Returns a batch of one or two texts per row, with the rows' targets [rows], such as classes.

    An item of the split has one target, and one text of `side` or two adjacent texts. `key` is
    unused, as nothing is random.
    """
    # A row without a text keeps target 0 and weight 0.
    batch_targets = np.zeros(shape[0], targets.dtype)
    batch_targets[row_of_item] = targets[items]
    weights = np.zeros(shape[0], np.float32)
    weights[row_of_item] = 1
    # With two texts per row, item 5 has texts 10 and 11.
    num_texts = len(side.lengths) // len(targets)
    numbers = (items[:, None] * num_texts + np.arange(num_texts)).ravel()
    batch_inputs = inputs(side, numbers, np.repeat(row_of_item, num_texts), shape)
    return {"inputs": batch_inputs, "targets": batch_targets, "weights": weights}


# Texts with masked tokens.


def masked(
    side: Side,
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple[int, int],
    *,
    share: float,
    vocab_size: int,
) -> dict:
    """Returns a batch of texts in which a share of the tokens is masked, to be predicted.

    Input `masked` has their columns, 'targets' their ids, and 'weights' 1, each [rows, slots] with
    zeros after the last. share * n of a row's n tokens (without START) are chosen, rounded at
    random so that the mean is exact. Draws depend on `key` = (seed, t) and the row's first text.
    """
    batch_inputs = inputs(side, items, row_of_item, shape)
    ids, positions, segments = (batch_inputs[name] for name in ("ids", "positions", "segments"))
    slots = int(share * shape[1]) + 1  # the most masked tokens of a row
    columns = np.zeros((shape[0], slots), np.int32)
    targets = np.zeros((shape[0], slots), np.int32)
    weights = np.zeros((shape[0], slots), np.float32)
    rows, first = np.unique(row_of_item, return_index=True)
    for row, item in zip(rows, items[first], strict=True):
        random = np.random.default_rng((*key, int(item)))
        tokens = np.flatnonzero((segments[row] > 0) & (positions[row] > 0))
        # Stochastic rounding: 2.3 becomes 2, and 3 in 30 % of the rows.
        count = int(share * len(tokens) + random.random())
        chosen = np.sort(random.permutation(tokens)[:count])
        columns[row, :count] = chosen
        targets[row, :count] = ids[row, chosen]
        weights[row, :count] = 1
        # BERT's 80/10/10: a chosen token becomes MASK, stays, or is replaced at random.
        fate = random.random(count)
        random_ids = random.integers(FIRST_PIECE, vocab_size, count)
        replaced = np.where(fate < KEPT + REPLACED, random_ids, MASK)
        ids[row, chosen] = np.where(fate < KEPT, ids[row, chosen], replaced)
    return {"inputs": batch_inputs | {"masked": columns}, "targets": targets, "weights": weights}
