"""The arrays of a batch of pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import packing, tokenizer
from transformer.data.batches import Batches
from transformer.data.tokens import Tokens


def example(rows: int, length: int) -> dict:
    """The shapes and types of a batch that `assemble` makes."""
    ids = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    names = (f"{side}{x}" for side in ("source", "target") for x in ("", "_positions", "_segments"))
    weights = jax.ShapeDtypeStruct((rows, length), jnp.float32)
    return {"inputs": dict.fromkeys(names, ids), "targets": ids, "weights": weights}


def assemble(
    tokens: Tokens,
    pairs: np.ndarray,
    row_of_pair: np.ndarray,
    shape: tuple[int, int],
    key: tuple = (),
) -> dict:
    """A batch of sentence pairs, arrays of `shape` (rows, length); nothing of it is random.

    {'inputs': the model's keyword arguments, 'targets', 'weights'}: weights are 1 on target
    positions and 0 on padding.
    """
    source, source_positions, source_segments = _lay(
        tokens.source, tokens.source_offsets, pairs, row_of_pair, shape
    )
    targets, target_positions, target_segments = _lay(
        tokens.target, tokens.target_offsets, pairs, row_of_pair, shape
    )
    # The decoder reads the target shifted right; every sentence of a row begins with the start
    # symbol, never with its neighbour's end.
    shifted = np.roll(targets, 1)
    shifted[target_positions == 0] = tokenizer.START
    real = target_segments > 0
    return {
        "inputs": {
            "source": source,
            "target": np.where(real, shifted, tokenizer.PAD),
            "source_positions": source_positions,
            "target_positions": target_positions,
            "source_segments": source_segments,
            "target_segments": target_segments,
        },
        "targets": targets,
        "weights": real.astype(np.float32),
    }


def _lay(
    ids: np.ndarray,
    offsets: np.ndarray,
    pairs: np.ndarray,
    row_of_pair: np.ndarray,
    shape: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lays one side's sentences one behind the other into their rows: (ids, positions, segments).

    A position counts from its sentence's beginning; segments number a row's sentences from 1; 0 is
    padding.
    """
    lengths = offsets[pairs + 1] - offsets[pairs]
    ends = np.cumsum(lengths)
    first = np.searchsorted(row_of_pair, row_of_pair)  # the first pair of each pair's row
    column = (ends - lengths) - (ends - lengths)[first]
    position = packing.ranges(np.zeros_like(lengths), lengths)
    place = np.repeat(row_of_pair * shape[1] + column, lengths) + position
    arrays = np.zeros((3, shape[0] * shape[1]), np.int32)
    arrays[0, place] = ids[np.repeat(offsets[pairs], lengths) + position]
    arrays[1, place] = position
    arrays[2, place] = np.repeat(np.arange(len(pairs)) - first + 1, lengths)
    ids, positions, segments = arrays.reshape(3, *shape)
    return ids, positions, segments


def filled(batches: Batches, tokens: Tokens) -> tuple[float, float]:
    """The shares of source and target positions of an epoch that hold a token."""
    pairs, positions = batches.items, batches.positions
    return tuple(side[pairs].sum() / positions for side in tokens.lengths)


def inputs(source_BS: jax.Array, target_BT: jax.Array) -> dict[str, jax.Array]:
    """What a model is called with, for one pair a row; the target is shifted right here."""
    shifted_BT = jnp.roll(target_BT, 1, axis=1).at[:, 0].set(tokenizer.START)
    found = {"source": source_BS, "target": shifted_BT}
    for side, ids in (("source", source_BS), ("target", target_BT)):
        found[f"{side}_positions"] = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
        found[f"{side}_segments"] = (ids != tokenizer.PAD).astype(jnp.int32)
    return found
