"""A stream of tokens -> the arrays of a batch: a row is a window of the stream.

The stream concatenates the lines, each with END for its line break. END also precedes the first
line, so that all lines start alike.
"""

import numpy as np

from transformer.data.packing import Rows
from transformer.data.tokenizer import END, PAD


def windows(num_tokens: int, length: int) -> Rows:
    """Returns the windows that cover a stream once, one per row: window i starts at i * length."""
    # Round up: 5 tokens in rows of 3 are two windows, the second with one column of padding.
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

    It is {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of `shape` (rows,
    length). Weights are 1 on tokens and 0 on padding. `key` is unused, as nothing is random. The
    windows have each token as a target exactly once. Window 1 of the stream 7 8 END 9 END, in rows
    of 3:

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

    A token thus has another context in each epoch. The shift of window i is below the length, and
    depends only on `key` = (seed, t) and i. Windows are full if the stream is long enough.
    """
    length, starts = shape[1], []
    last = max(0, len(ids) - length)  # start of the last full window
    for item in items.tolist():
        # With length 4 and 10 tokens, windows 0, 1, 2 start in [0, 4), [4, 7), [6, 7).
        first = min(item * length, last)
        stop = min(first + length, last + 1)
        starts.append(np.random.default_rng((*key, item)).integers(first, stop))
    return _lay(ids, np.array(starts, np.int64), row_of_item, shape)


def _lay(
    ids: np.ndarray, starts: np.ndarray, row_of_item: np.ndarray, shape: tuple[int, int]
) -> dict:
    """Lays out the windows that start at `starts` in their rows."""
    # A window that starts at 3 has targets 3 4 5 and the tokens before them, 2 3 4.
    at_IT = starts[:, None] + np.arange(shape[1])  # of each target in the stream; I: items
    real_IT = at_IT < len(ids)
    # Padding is after the stream's end, so clip its indices; its values are not used.
    before_IT = np.where(at_IT > 0, ids[np.clip(at_IT - 1, 0, len(ids) - 1)], END)

    def rows(values_IT: np.ndarray, padding: int, dtype: type = np.int32) -> np.ndarray:
        array = np.full(shape, padding, dtype)
        array[row_of_item] = np.where(real_IT, values_IT, padding)
        return array

    inputs = {
        "tokens": rows(before_IT, PAD),
        "positions": rows(np.arange(shape[1]), 0),
        "segments": rows(real_IT, 0),
    }
    targets = rows(ids[np.minimum(at_IT, len(ids) - 1)], PAD)
    return {"inputs": inputs, "targets": targets, "weights": rows(real_IT, 0, np.float32)}
