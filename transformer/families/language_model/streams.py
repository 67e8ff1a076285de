"""A stream of tokens -> the arrays of a batch: a row is a window of the stream.

Lines follow one another, each with END for its line break. The first line has END before it as
well, so that every line begins in the same way.
"""

import functools

import numpy as np

from transformer.data.batches import example_of
from transformer.data.packing import Rows
from transformer.data.tokenizer import END, PAD


def example(rows: int, length: int) -> dict:
    """Returns the shapes and dtypes of a batch, as ShapeDtypeStructs."""
    return example_of(functools.partial(assemble, np.zeros(1, np.uint16)), rows, length)


def windows(num_tokens: int, length: int) -> Rows:
    """Returns the windows that cover a stream once, one a row: window i begins at i * length."""
    # Rounded up: 5 tokens in rows of 3 are two windows, the second with one column of padding.
    count = -(-num_tokens // length)
    return Rows(length, np.arange(count), np.arange(count + 1))


def assemble(
    ids: np.ndarray,
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple = (),
) -> dict:
    """Returns a batch of windows of the stream `ids`: items[i] in row row_of_item[i].

    {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of `shape` (rows,
    length); weights are 1 on tokens and 0 on padding. `key` is unused: nothing is random. Together
    the windows have each token as a target exactly once. Window 1 of the stream 7 8 END 9 END, in
    rows of 3:

        targets      9    END  PAD
        tokens       END  9    PAD     the token before each target
        positions    0    1    0
        weights      1    1    0
    """
    return _lay(ids, items * shape[1], row_of_item, shape)


def assemble_shifted(
    ids: np.ndarray,
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple[int, int],
) -> dict:
    """Returns a batch as `assemble` does, each window shifted by a random number of tokens.

    So a token has another context in each epoch. The shift of window i is below the length, and
    depends on `key` = (seed, t) and i alone. Windows are full if the stream is long enough.
    """
    length, starts = shape[1], []
    last = max(0, len(ids) - length)  # where the last full window begins
    for item in items.tolist():
        # Length 4, 10 tokens: windows 0, 1, 2 begin in [0, 4), [4, 7), [6, 7).
        first = min(item * length, last)
        stop = min(first + length, last + 1)
        starts.append(np.random.default_rng((*key, item)).integers(first, stop))
    return _lay(ids, np.array(starts, np.int64), row_of_item, shape)


def _lay(
    ids: np.ndarray, starts: np.ndarray, row_of_item: np.ndarray, shape: tuple[int, int]
) -> dict:
    """Lays out the windows that begin at `starts`, in their rows."""
    # A window that starts at 3 has the targets 3 4 5, and the tokens 2 3 4 before them.
    at_IT = starts[:, None] + np.arange(shape[1])  # of each target in the stream; I: items
    real_IT = at_IT < len(ids)
    # Padding lies behind the stream's end: its indices are clipped, and its values not used.
    before_IT = np.where(at_IT > 0, ids[np.clip(at_IT - 1, 0, len(ids) - 1)], END)
    positions_IT = np.broadcast_to(np.arange(shape[1]), at_IT.shape)

    def rows(values_IT: np.ndarray, padding: int, dtype: type = np.int32) -> np.ndarray:
        array = np.full(shape, padding, dtype)
        array[row_of_item] = np.where(real_IT, values_IT, padding)
        return array

    inputs = {
        "tokens": rows(before_IT, PAD),
        "positions": rows(positions_IT, 0),
        "segments": rows(real_IT, 0),
    }
    targets = rows(ids[np.minimum(at_IT, len(ids) - 1)], PAD)
    return {"inputs": inputs, "targets": targets, "weights": rows(real_IT, 0, np.float32)}
