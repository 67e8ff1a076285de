"""A decoder's cache: the states of its layers, and the ancestry of beams that share slots.

The state of self-attention is a KV cache that the W beams of a sentence share. Reordering beams
moves no keys or values. It changes only `ancestry`, one integer per beam and position. With a cache
per beam, each step would gather the keys and values of all layers.

Slot p * W + w holds the keys and values that beam w wrote at position p. An example with W = 2:

    position 0: both beams write START, in slots 0 and 1               [[0], [1]]
    both best continuations are beam 0's: parents [0, 0]               [[0], [0]]
    position 1: beam 0 writes "The" in slot 2, beam 1 "A" in slot 3    [[0, 0], [0, 1]]
    both best continuations are beam 0's: parents [0, 0]               [[0, 0], [0, 0]]
    position 2: beam 0 writes "cat" in slot 4, beam 1 "dog" in slot 5  [[0, 0, 0], [0, 0, 1]]

The ancestry on the right ends at the position last written. At position 2 beam 0 attends to
START The cat, slots 0 2 4, and beam 1 to START The dog, slots 0 2 5. The mask's rows are
[1, 0, 1, 0, 1, 0] and [1, 0, 1, 0, 0, 1]. No beam attends to "A" any more.

`reorder` gathers any other state, arrays [B, W, ...], by beam. A search starts with little room and
grows it; arrays with an axis of positions belong in a record with a method `grow`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.models.masks import View

Array = jax.Array
Tree = Any  # a pytree
# keys_BHKS and values_BHSC, in the layout of attention's two products. Otherwise XLA transposes
# a memory or a KV cache at each decoding step, 3 to 8 times slower on CPUs.
KeysValues = tuple[Array, Array]


class Slots(NamedTuple):
    """The state of attention: keys and values of W beams, with room for P positions, N = P * W."""

    keys_BHKN: Array
    values_BHNC: Array

    def grow(self, times: int) -> "Slots":
        """Pads to `times` as many positions."""
        # Slot p * W + w keeps its index, so growing is padding.
        return Slots(lengthened(self.keys_BHKN, 3, times), lengthened(self.values_BHNC, 2, times))


class Cache(NamedTuple):
    """A decoder's state of W beams between steps, with room for P positions."""

    states: list  # one per layer, of its mixer
    ancestry_BWP: Array  # int32: the beam that wrote position p of beam w's history

    def grow(self, times: int) -> "Cache":
        """Pads to `times` as many positions."""
        return Cache(grow(self.states, times), lengthened(self.ancestry_BWP, 2, times))


def empty_ancestry(batch_size: int, room: int, num_beams: int) -> Array:
    """Returns zeros; a position is written before a mask includes it, so they are never read."""
    return jnp.zeros((batch_size, num_beams, room), jnp.int32)


def empty_slots(keys_values: KeysValues, room: int, num_beams: int) -> Slots:
    """Returns zeros for `room` positions, with the heads, sizes and dtype of `keys_values`."""
    (B, H, K, _), C = keys_values[0].shape, keys_values[1].shape[-1]
    N, dtype = room * num_beams, keys_values[0].dtype
    return Slots(jnp.zeros((B, H, K, N), dtype), jnp.zeros((B, H, N, C), dtype))


def write(slots: Slots, slot: Array, keys_values: KeysValues) -> Slots:
    """Returns the slots after writing new keys and values from slot `slot` on."""

    def write_along(axis: int, old: Array, new: Array) -> Array:
        if old.dtype != jnp.bfloat16:
            return jax.lax.dynamic_update_slice_in_dim(old, new, slot, axis)
        # As bits, because XLA on CPUs would convert the whole cache to float32 and back.
        old, new = (jax.lax.bitcast_convert_type(x, jnp.uint16) for x in (old, new))
        written = jax.lax.dynamic_update_slice_in_dim(old, new, slot, axis)
        return jax.lax.bitcast_convert_type(written, jnp.bfloat16)

    # Slots are axis 3 of keys_BHKN and axis 2 of values_BHNC.
    return Slots(*map(write_along, (3, 2), slots, keys_values))


def write_ancestry(ancestry_BWP: Array, position: Array, num_tokens: int) -> Array:
    """Returns the ancestry after each beam has written `num_tokens` tokens from `position` on."""
    B, W, _ = ancestry_BWP.shape
    beams = jnp.arange(W, dtype=jnp.int32)
    # At the new positions each beam is its own writer.
    writers_BWT = jnp.broadcast_to(beams[:, None], (B, W, num_tokens))
    return jax.lax.dynamic_update_slice(ancestry_BWP, writers_BWT, (0, 0, position))


def history_mask(ancestry_BWP: Array, positions_T: Array) -> Array:
    """Returns the causal mask [B, Q, N] of queries over the slots of a KV cache.

    Query t * W + w (token t of beam w) sees slot p * W + v if position p is not after its own and
    the ancestry of beam w names beam v at position p.
    """
    B, W, P = ancestry_BWP.shape
    past_TP = jnp.arange(P) <= positions_T[:, None]
    # Axes of the mask: sentence, token, querying beam, position, writing beam.
    wrote_BWPW = ancestry_BWP[..., None] == jnp.arange(W)
    mask_BTWPW = past_TP[None, :, None, :, None] & wrote_BWPW[:, None]
    # Query t * W + w and slot p * W + v: with W = 2, slot 5 is beam 1's at position 2.
    return mask_BTWPW.reshape(B, len(positions_T) * W, P * W)


class Queries(NamedTuple):
    """The next T tokens of W beams, as Q = T * W queries in the order of the slots they write.

    Token t of beam w is query t * W + w; its keys and values go to slot (position + t) * W + w.
    """

    tokens_BQ: Array
    view: View  # a query sees the slots of its beam's history
    position: Array  # of token 0
    ancestry_BWP: Array  # with the new tokens

    @property
    def num_beams(self) -> int:
        """W."""
        return self.ancestry_BWP.shape[1]

    def per_beam(self, x_BQV: Array) -> Array:
        """Returns the queries' vectors as [B, W, T, V]."""
        B, _, V = x_BQV.shape
        return x_BQV.reshape(B, -1, self.num_beams, V).swapaxes(1, 2)

    def in_order(self, x_BWTV: Array) -> Array:
        """Returns the vectors of each beam's tokens in the order of the queries, [B, Q, V]."""
        B, W, T, V = x_BWTV.shape
        return x_BWTV.swapaxes(1, 2).reshape(B, T * W, V)


def queries(tokens_BWT: Array, position: Array, ancestry_BWP: Array) -> Queries:
    """Returns the queries of tokens from `position` on, for a decoder's step."""
    B, W, T = tokens_BWT.shape
    # With position 5, T = 2 and W = 2 the queries are at 5 5 6 6.
    positions_T = position + jnp.arange(T)
    positions_BQ = jnp.broadcast_to(jnp.repeat(positions_T, W), (B, T * W))
    ancestry_BWP = write_ancestry(ancestry_BWP, position, T)
    mask_BQN = history_mask(ancestry_BWP, positions_T)
    view = View(mask_BQN, positions_BQ, slot_positions(ancestry_BWP))
    # [B, W, T] -> [B, T, W] -> [B, Q]: beams vary fastest, as in the slots.
    tokens_BQ = tokens_BWT.swapaxes(1, 2).reshape(B, T * W)
    return Queries(tokens_BQ, view, position, ancestry_BWP)


def slot_positions(ancestry_BWP: Array) -> Array:
    """Returns the position of each slot, int [B, N]: with two beams 0 0 1 1 2 2 ..."""
    B, W, P = ancestry_BWP.shape
    return jnp.broadcast_to(jnp.repeat(jnp.arange(P), W), (B, P * W))


def reorder(cache: Tree, parents_BW: Array) -> Tree:
    """Returns the cache in which beam w continues beam parents[w]; Slots stay as they are.

    In any other array x [B, W, ...], x[b, w] becomes x[b, parents[b, w]].
    """

    def gather(x: Array | Slots) -> Array | Slots:
        if isinstance(x, Slots):  # the reordered ancestry says which slots are a beam's
            return x
        parents = parents_BW.reshape(*parents_BW.shape, *[1] * (x.ndim - 2))
        # Parents are in bounds; jnp's default mode would add 17 operations to check it.
        return jnp.take_along_axis(x, parents, axis=1, mode="promise_in_bounds")

    return jax.tree.map(gather, cache, is_leaf=lambda x: isinstance(x, Slots))


def grow(cache: Tree, times: int) -> Tree:
    """Returns the cache with room for `times` as many positions.

    Records with a method `grow` grow; all other arrays keep their size.
    """
    grows = lambda x: hasattr(x, "grow")
    return jax.tree.map(lambda x: x.grow(times) if grows(x) else x, cache, is_leaf=grows)


def lengthened(x: Array, axis: int, times: int) -> Array:
    """Pads an axis with zeros to `times` its length."""
    more = (times - 1) * x.shape[axis]
    return jnp.pad(x, [(0, more if i == axis else 0) for i in range(x.ndim)])
