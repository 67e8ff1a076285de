"""Self-attention to near positions only (Vaswani et al. 2017, section 4: "restricted").

It takes O(r T D) to attend to r positions, not O(T^2 D) (last row of the paper's table 1).
"""

import functools

import jax.numpy as jnp
from jax import Array

from transformer.errors import check_value
from transformer.models import cache
from transformer.models.attention import SelfAttention
from transformer.models.cache import KeysValues, Queries, Slots
from transformer.models.masks import View, same_segment

SHORTEST_BLOCK = 16  # even for shorter windows, because products of fewer rows are not faster


class Ring(Slots):
    """Slots of `window` positions; beam w writes position p to slot (p mod window) * W + w."""

    def grow(self, times: int) -> "Ring":
        """Returns the ring itself, because a new position takes the slots of the oldest."""
        return self


class Local(SelfAttention):
    """Attends to the positions less than `window` away; if causal, to the last `window` positions.

    Long rows are cut into blocks of at least `window` positions. A block's queries attend to the
    keys of their own block, of the previous and, in an encoder, of the next block. Time and memory
    are thus linear in T. Rows no longer than these two or three blocks are masked instead, and sow
    their weights. Blocks sow none, because they have no map [B, H, T, S]. Decoding keeps the keys
    and values of `window` positions, however long the output.
    """

    window: int

    def setup(self) -> None:
        check_value("model.mixer.window", self.window, "at least 1")
        super().setup()

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        positions_BT = view.query_positions_BT
        if x_BTD.shape[1] <= self._keys_of_block:
            mask_BTS = view.mask_BTS & self._are_near(positions_BT, view.key_positions_BS)
            return super().__call__(x_BTD, view._replace(mask_BTS=mask_BTS), train=train)
        q_BTHK = self.project_queries(x_BTD, positions_BT)
        keys_values = self.project(x_BTD, positions_BT)
        return self.output(self._attend_in_blocks(q_BTHK, keys_values, view, train=train))

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Ring:
        return Ring(*super().empty_state(x_BTD, self.window, num_beams))

    def step(self, x_BQD: Array, queries: Queries, state: Ring) -> tuple[Array, Ring]:
        start, W, window = queries.position, queries.num_beams, self.window
        T = x_BQD.shape[1] // W
        if T == 1:
            # Overwrite position start - window, which is no longer near. Place r then holds the
            # last p <= start with p mod window = r: with window 4 and start 5, positions 4 5 2 3.
            place = start % window
            held_P = start - (start - jnp.arange(window)) % window
        else:
            # Unroll the ring from position start - window on, with T more places.
            keys_BHKN, values_BHNC = _roll(state, -start * W)
            more, no = (0, T * W), (0, 0)
            state = Slots(
                jnp.pad(keys_BHKN, (no, no, no, more)), jnp.pad(values_BHNC, (no, no, more, no))
            )
            place = window
            held_P = start - window + jnp.arange(window + T)
        queries = queries._replace(position=place, view=self._ring_view(queries, held_P))
        y_BQD, state = super().step(x_BQD, queries, state)
        if T > 1:
            # Put the last `window` positions back into their places in a ring.
            last = state.keys_BHKN[..., -window * W :], state.values_BHNC[:, :, -window * W :]
            state = _roll(last, (start + T) * W)
        return y_BQD, Ring(*state)

    def multiply_adds(self, length: int) -> int:
        return super().multiply_adds(min(length, self._keys_of_block))

    @property
    def _block_size(self) -> int:
        return max(self.window, SHORTEST_BLOCK)

    @property
    def _keys_of_block(self) -> int:
        """The number of keys that a block's queries attend to, those of 2 or 3 blocks."""
        return (2 if self.causal else 3) * self._block_size

    def _are_near(self, queries_BT: Array, keys_BS: Array) -> Array:
        """Returns the mask [B, T, S] of positions less than `window` away."""
        return jnp.abs(queries_BT[:, :, None] - keys_BS[:, None, :]) < self.window

    def _attend_in_blocks(
        self, q_BTHK: Array, keys_values: KeysValues, view: View, *, train: bool
    ) -> Array:
        """Returns context_BTHC; the blocks of all rows are the rows of one call of `attend`."""
        (B, T, H, _), (k_BHKS, v_BHSC) = q_BTHK.shape, keys_values
        # All rows may share a row of positions; without segments a row is one text.
        positions_BT = jnp.broadcast_to(view.query_positions_BT, (B, T))
        segments_BT = 1 if view.segments_BT is None else view.segments_BT
        segments_BT = jnp.broadcast_to(segments_BT, (B, T))
        # From here on B is B * n, T the size of a block, S the size of two or three blocks.
        in_blocks = functools.partial(blocks, size=self._block_size)
        near_blocks = functools.partial(in_blocks, before=1, after=0 if self.causal else 1)
        queries_BT, keys_BS = in_blocks(positions_BT, axis=1), near_blocks(positions_BT, axis=1)
        # Padding, including that of blocks, is in segment 0.
        mask_BTS = same_segment(in_blocks(segments_BT, axis=1), near_blocks(segments_BT, axis=1))
        mask_BTS &= self._are_near(queries_BT, keys_BS)
        if self.causal:
            mask_BTS &= queries_BT[:, :, None] >= keys_BS[:, None, :]
        keys_values = near_blocks(k_BHKS, axis=3), near_blocks(v_BHSC, axis=2)
        view = View(mask_BTS, queries_BT, keys_BS)
        context_BTHC, _ = self.attend_to(in_blocks(q_BTHK, axis=1), keys_values, view, train=train)
        # [B * n, size, H, C] -> [B, n * size, H, C], the last block without its padding.
        return context_BTHC.reshape(B, -1, H, context_BTHC.shape[-1])[:, :T]

    def _ring_view(self, queries: Queries, held_P: Array) -> View:
        """Returns the view of the slots of positions `held_P`; positions below 0 are empty.

        Token t is element window + t of `held_P`; a single token sees all elements.
        """
        queries_BQ, W = queries.view.query_positions_BT, queries.num_beams
        (B, Q), P = queries_BQ.shape, len(held_P)
        ancestry_BWP = jnp.take(queries.ancestry_BWP, held_P, axis=2, mode="clip")
        mask_BQN = cache.history_mask(ancestry_BWP, self.window + jnp.arange(Q // W))
        # Slots of one position are adjacent, as in cache.slot_positions.
        keys_BN = jnp.broadcast_to(jnp.repeat(held_P, W), (B, P * W))
        mask_BQN &= self._are_near(queries_BQ, keys_BN) & (keys_BN >= 0)[:, None]
        return View(mask_BQN, queries_BQ, keys_BN)


def blocks(x: Array, *, axis: int, size: int, before: int = 0, after: int = 0) -> Array:
    """Cuts an axis of x [B, ...] into n blocks, which become rows: [B * n, ..., size, ...].

    Each block includes the `before` blocks before it and the `after` blocks after it, with zeros
    beyond both ends. With size 2 and before 1, 1 2 3 becomes 0 0 1 2 and 1 2 3 0.
    """
    n = -(-x.shape[axis] // size)
    padding = before * size, (n + after) * size - x.shape[axis]
    x = jnp.pad(x, [padding if i == axis else (0, 0) for i in range(x.ndim)])
    # [B, ..., before + n + after, size, ...], then the axis of blocks moves after B.
    x = x.reshape(*x.shape[:axis], -1, size, *x.shape[axis + 1 :])
    x = jnp.moveaxis(x, axis, 1)
    # Block i and its neighbours are i to i + before + after, one slice each.
    x = jnp.concatenate([x[:, i : i + n] for i in range(before + 1 + after)], axis=axis + 1)
    return x.reshape(-1, *x.shape[2:])


def _roll(kept: tuple[Array, Array], shift: Array) -> tuple[Array, Array]:
    """Rotates the slots of keys and values by `shift`."""
    keys_BHKN, values_BHNC = kept
    return jnp.roll(keys_BHKN, shift, axis=3), jnp.roll(values_BHNC, shift, axis=2)
