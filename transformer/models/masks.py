"""Attention masks: texts of a packed row do not see each other, a decoder sees no later token."""

from typing import NamedTuple

from jax import Array


class View(NamedTuple):
    """The keys that each query may attend to, and the positions of queries and keys."""

    mask_BTS: Array  # bool; [B, 1, S] if all queries share it
    # int, from 0 in each text. Position encodings, windows and a decoding step's input read them.
    query_positions_BT: Array
    key_positions_BS: Array
    # int: the texts of a row are numbered from 1, 0 is padding. None if a row is one text, as in a
    # step of decoding. Read by mixers that take no mask.
    segments_BT: Array | None = None


def same_segment(query_segments_BT: Array, key_segments_BS: Array) -> Array:
    """Returns the mask, bool [B, T, S], of the keys in the same sentence pair as the query.

    Segments 1 1 2 0 on both sides give 1100 1100 0010 0000: positions 0 and 1 see each other,
    position 2 sees itself, padding (0) neither sees nor is seen.
    """
    same_BTS = query_segments_BT[:, :, None] == key_segments_BS[:, None, :]
    return same_BTS & (key_segments_BS > 0)[:, None, :]


def self_view(positions_BT: Array, segments_BT: Array, *, causal: bool) -> View:
    """Returns the view of packed rows, in which each text sees itself only.

    If causal, a position sees no later one: segments 1 1 2 0 with positions 0 1 0 0 have the mask
    1000 1100 0010 0000.
    """
    mask_BTT = same_segment(segments_BT, segments_BT)
    if causal:
        mask_BTT &= positions_BT[:, :, None] >= positions_BT[:, None, :]
    return View(mask_BTT, positions_BT, positions_BT, segments_BT)
