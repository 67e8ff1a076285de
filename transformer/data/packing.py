"""Several pairs in one row: which pair is in which row, and how the rows are found."""

import hashlib
import io
import logging
from typing import NamedTuple

import numpy as np

from transformer.data.tokens import Tokens
from transformer.errors import UserError
from transformer.storage import checksums, paths

OPEN_ROWS = 512  # rows that `pack` still offers a pair; more fill hardly better and take longer


class Rows(NamedTuple):
    """Row r holds the pairs `pairs[offsets[r] : offsets[r + 1]]`, in `length` positions a side."""

    length: int
    pairs: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def trainable(tokens: Tokens, max_length: int) -> np.ndarray:
    """The pairs to train on: no side blank or over `max_length` ids (its end included)."""
    source, target = tokens.source_lengths, tokens.target_lengths
    blank = (source <= 1) | (target <= 1)
    long = ~blank & ((source > max_length) | (target > max_length))
    if blank.any() or long.any():
        logging.info(
            "training pairs left out: %d blank on a side, %d over data.max_length=%d, of %d",
            *(blank.sum(), long.sum(), max_length, len(source)),
        )
    if (blank | long).all():
        raise UserError(
            f"no training pair is left: of {len(source)}, {blank.sum()} are blank on a side and "
            f"{long.sum()} have over config.data.max_length={max_length} pieces"
        )
    return np.flatnonzero(~blank & ~long)


def pack(tokens: Tokens, pairs: np.ndarray, length: int, seed: int) -> Rows:
    """Lays several pairs into each row of `length` source and `length` target positions.

    First fit over a seeded permutation of the pairs, among the OPEN_ROWS rows opened last and not
    yet full; cached beside the tokens. Filled on Multi30k (29,000 pairs, rows of 128): see
    benchmarks/batches.py.
    """
    name = hashlib.sha256(pairs.tobytes() + f"{length} {seed} {OPEN_ROWS}".encode()).hexdigest()
    path = tokens.directory / f"packed-{name[:16]}.npy"
    content = checksums.stamped(path)
    if content is None:
        source, target = tokens.source_lengths[pairs], tokens.target_lengths[pairs]
        row_of_pair = _first_fit(source, target, length, seed)
        array = io.BytesIO()
        np.save(array, row_of_pair)
        content = array.getvalue()
        with paths.cache_in(tokens.directory):
            paths.write_file(path, checksums.stamp(content))
    row_of_pair = np.load(io.BytesIO(content))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_pair))])
    return Rows(length, pairs[np.argsort(row_of_pair, kind="stable")], offsets)


def unpacked(tokens: Tokens, pairs: np.ndarray, length: int) -> list[Rows]:
    """One pair a row, in few static lengths: those of `static_lengths`.

    Rows are sorted by length, so that neighbours are alike.
    """
    longest = np.maximum(tokens.source_lengths, tokens.target_lengths)[pairs]
    order = np.argsort(longest, kind="stable")
    pairs, longest = pairs[order], longest[order]
    groups, start = [], 0
    for static_length in static_lengths(length, int(longest.max(initial=1))):
        stop = int(np.searchsorted(longest, static_length, side="right"))
        if stop > start:
            groups.append(Rows(static_length, pairs[start:stop], np.arange(stop - start + 1)))
        start = stop
    return groups


def static_lengths(length: int, longest: int) -> list[int]:
    """The few lengths that arrays have: length / 8, / 4, / 2, / 1, and doubles up to `longest`."""
    lengths = [max(1, length // 8), max(1, length // 4), max(1, length // 2), length]
    while lengths[-1] < longest:
        lengths.append(2 * lengths[-1])
    return sorted(set(lengths))


def _first_fit(source: np.ndarray, target: np.ndarray, length: int, seed: int) -> np.ndarray:
    """The row of each pair."""
    row_of_pair = np.zeros(len(source), np.int32)
    source_room = np.full(OPEN_ROWS, length)
    target_room = np.full(OPEN_ROWS, length)
    row_of_slot = np.full(OPEN_ROWS, -1)
    num_rows = 0
    for pair in np.random.default_rng(seed).permutation(len(source)).tolist():
        fits = (source_room >= source[pair]) & (target_room >= target[pair])
        slot = int(fits.argmax())
        if not fits[slot]:  # close the fullest row and open a new one in its place
            slot = int((source_room + target_room).argmin())
            source_room[slot] = target_room[slot] = length
            row_of_slot[slot] = -1
        if row_of_slot[slot] < 0:
            row_of_slot[slot] = num_rows
            num_rows += 1
        source_room[slot] -= source[pair]
        target_room[slot] -= target[pair]
        row_of_pair[pair] = row_of_slot[slot]
    return row_of_pair
