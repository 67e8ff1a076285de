"""Shifts of a text by some positions, for convolutions."""

import jax
import jax.numpy as jnp

Array = jax.Array


def offsets(width: int, causal: bool) -> range:
    """Returns the offsets of the `width` neighbouring positions that a position reads.

    If causal, they end at the position itself: -2 -1 0 for width 3. Otherwise it is in the middle:
    -1 0 1. An even width has one more before than after it: -2 -1 0 1.
    """
    first = -(width - 1) if causal else -(width // 2)
    return range(first, first + width)


def shifted(x_BTD: Array, segments_BT: Array | None, offset: int) -> Array:
    """Returns x at position t + offset for each t; zeros if it is not in the text of t.

    `segments_BT` is a View's: None if a row is one text.
    """
    moved_BTD = _move(x_BTD, offset)
    if segments_BT is None:
        return moved_BTD
    return jnp.where(same_text(segments_BT, offset)[..., None], moved_BTD, 0)


def same_text(segments_BT: Array, offset: int) -> Array:
    """Returns where position t + offset is in the text of position t, bool [B, T].

    Segments 1 1 2 2 0 give 0 1 0 1 0 for offset -1. Padding may see padding.
    """
    return segments_BT == _move(segments_BT, offset)


def _move(x_BTD: Array, offset: int) -> Array:
    """Returns x at position t + offset for each t, zeros beyond the ends of the row."""
    # Offset -2 pads two zeros before the row and removes its last two positions.
    config = [(-offset, offset, 0) if axis == 1 else (0, 0, 0) for axis in range(x_BTD.ndim)]
    return jax.lax.pad(x_BTD, jnp.zeros((), x_BTD.dtype), config)
