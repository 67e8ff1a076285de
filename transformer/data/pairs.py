"""Sentence pairs -> the arrays of a batch: packed (`assemble`), or one pair per row."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import packing, tokenizer
from transformer.data.batches import Batches, example_of
from transformer.data.tokens import NO_SIDE, Side, Tokens


def assemble(
    tokens: Tokens, items: np.ndarray, row_of_item: np.ndarray, shape: tuple[int, int], key: tuple
) -> dict:
    """Returns a batch of sentence pairs: items[i] in row row_of_item[i], which is sorted.

    It is {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of `shape` (rows,
    length). Weights are 1 on target tokens and 0 on padding. `key` is unused, as nothing is random.

    Example: targets [7 8 END] and [9 END] packed into a row of 7 positions:

        targets            7      8  END  9      END  PAD  PAD
        target             START  7  8    START  9    PAD  PAD
        target_positions   0      1  2    0      1    0    0
        target_segments    1      1  1    2      2    0    0
        weights            1      1  1    1      1    0    0
    """
    inputs = {}
    for name, side in tokens.sides.items():
        ids, positions, segments = lay(side, items, row_of_item, shape)
        inputs |= {name: ids, f"{name}_positions": positions, f"{name}_segments": segments}
    targets = inputs["target"]
    # Shift right for the decoder. START replaces the previous sentence's last id at position 0.
    shifted = np.roll(targets, 1)
    shifted[inputs["target_positions"] == 0] = tokenizer.START
    # Padding is segment 0.
    real = inputs["target_segments"] > 0
    inputs["target"] = np.where(real, shifted, tokenizer.PAD)
    return {"inputs": inputs, "targets": targets, "weights": real.astype(np.float32)}


def lay(
    side: Side, items: np.ndarray, row_of_item: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lays out the items of one side; returns (ids, positions, segments), int32, 0 on padding.

    All have `shape` (rows, length). Positions restart with each sentence, and segments number a
    row's sentences from 1. Example with rows of 7: lengths 3 2 4 in rows 0 0 1 have `first` 0 0 2,
    `column` 0 3 0 and `flat_index` 0 1 2, 3 4, 7 8 9 10.
    """
    starts_of_items = side.offsets[items]
    lengths = side.offsets[items + 1] - starts_of_items
    # Exclusive sum: laid end to end, lengths 3 2 4 start at 0 3 5.
    starts = np.cumsum(lengths) - lengths
    first = np.searchsorted(row_of_item, row_of_item)  # the first item in each item's row
    column = starts - starts[first]
    position = packing.concatenate_ranges(np.zeros_like(lengths), lengths)
    flat_index = np.repeat(row_of_item * shape[1] + column, lengths) + position
    # Flat index row * length + column: 7 8 9 10 are row 1, columns 0 to 3.
    arrays = np.zeros((3, shape[0] * shape[1]), np.int32)
    arrays[0, flat_index] = side.ids[np.repeat(starts_of_items, lengths) + position]
    arrays[1, flat_index] = position
    arrays[2, flat_index] = np.repeat(np.arange(len(items)) - first + 1, lengths)
    ids, positions, segments = arrays.reshape(3, *shape)
    return ids, positions, segments


def example(rows: int, length: int) -> dict:
    """Returns the shapes and dtypes of a batch from `assemble`, as ShapeDtypeStructs."""
    tokens = Tokens({"source": NO_SIDE, "target": NO_SIDE}, Path())
    return example_of(functools.partial(assemble, tokens), rows, length)


def fill_fractions(batches: Batches, tokens: Tokens) -> tuple[float, float]:
    """Returns the fractions of the source and target positions of all rows that are tokens."""
    return tuple(side[batches.items].sum() / batches.positions for side in tokens.lengths)


def inputs_of_single_pairs(source_BS: jax.Array, target_BT: jax.Array) -> dict[str, jax.Array]:
    """Returns a model's inputs for padded ids, one pair per row, with the target shifted right."""
    shifted_BT = jnp.roll(target_BT, 1, axis=1).at[:, 0].set(tokenizer.START)
    inputs = {"source": source_BS, "target": shifted_BT}
    # In unpacked rows, each row is a segment that starts at position 0.
    for side, ids in (("source", source_BS), ("target", target_BT)):
        positions, segments = positions_and_segments(ids)
        inputs |= {f"{side}_positions": positions, f"{side}_segments": segments}
    return inputs


def positions_and_segments(ids_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns (positions_BS, segments_BS) of one padded sentence per row: segment 1, 0 on PAD."""
    positions_BS = jnp.broadcast_to(jnp.arange(ids_BS.shape[1]), ids_BS.shape)
    return positions_BS, (ids_BS != tokenizer.PAD).astype(jnp.int32)
