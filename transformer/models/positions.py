"""Positional encodings: of the input (paper 3.5), or of self-attention's queries and keys.

The latter are relative. Cross-attention then knows positions only from the states of encoder and
decoder.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import dense
from transformer.models.scores import SCORES

Array = jax.Array
# Relative positions, with the score functions that they go with: rotations keep their distance only
# in products of q and k, and score(q, k + a) is score(q, k) + score(q, a) only where it is linear.
RELATIVE = {
    "rotary": ("scaled_dot", "dot", "cosine"),
    "shaw": ("scaled_dot", "dot", "general"),
    "alibi": SCORES,
    "t5": SCORES,
}
T5_BUCKETS = 32  # of distances, as in T5
KINDS = ("interleaved", "concatenated", "halves", "learned", "none", *RELATIVE)


def check(kind: str, score: str, key_size: int, max_distance: int) -> None:
    """Raises UserError for a score or a size that does not go with this kind of positions."""
    if score not in (scores := RELATIVE.get(kind, (score,))):
        raise UserError(
            f"config.model.score={score!r} does not go with config.model.positions={kind!r}: "
            f"it would not be relative; the scores that do are {', '.join(map(repr, scores))}"
        )
    if kind == "rotary" and key_size % 2:
        raise UserError(
            f"config.model.positions='rotary' rotates pairs: the size of a head's keys must "
            f"be even, found {key_size} (config.model.key_size, or d_model / num_heads)"
        )
    if kind == "shaw" and not max_distance:
        raise UserError(
            "config.model.positions='shaw' needs config.model.max_distance of at least 1, where "
            "distances are clipped (16 in the paper's base)"
        )
    if kind == "t5" and max_distance <= T5_BUCKETS:
        raise UserError(
            "config.model.positions='t5' needs config.model.max_distance above "
            f"{T5_BUCKETS}, from where on distances are in one bucket (128 in T5), found "
            f"{max_distance}"
        )


def is_of_input(kind: str) -> bool:
    """Returns whether this kind is an encoding that joins the input of the first layer."""
    return kind != "none" and kind not in RELATIVE


def most_positions(model: nn.Module) -> float:
    """Returns the limit on the positions of a text: the number of learned ones, else infinity."""
    return model.max_positions if model.options.positions == "learned" else math.inf


class PositionEncoding(nn.Module):
    """Adds an encoding of each position: sinusoids of a layout, or 'learned' vectors.

    Of the other kinds, 'none' knows no positions, and self-attention compares RELATIVE ones. If
    `concatenated`, the output is a linear map of [x; encoding], which is a sum again, W x + U p.
    """

    kind: str
    max_positions: int  # how many positions are learned; sinusoids have no limit
    concatenated: bool = False

    @nn.compact
    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        D = x_BTD.shape[-1]
        if not is_of_input(self.kind):
            return x_BTD
        if self.kind == "learned":
            normal = dense.normal(D**-0.5)
            table_PD = self.param("embedding", normal, (self.max_positions, D))
            # Padding may have positions beyond the learned ones.
            p_BTD = jnp.take(table_PD, jnp.minimum(positions_BT, self.max_positions - 1), axis=0)
        else:
            p_BTD = sinusoids(positions_BT, D, self.kind)
        if self.concatenated:
            pair_BTF = jnp.concatenate([x_BTD, jnp.broadcast_to(p_BTD, x_BTD.shape)], axis=-1)
            return dense.linear(jnp.float32)(D, name="map")(pair_BTF)  # float32, as the sum is
        return x_BTD + p_BTD


def sinusoids(positions_BT: Array, d_model: int, layout: str) -> Array:
    """Returns sinusoidal position encodings [B, T, D] in float32, of any positions.

    'interleaved' is the paper's: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the
    same. 'halves' has the same waves, all sines first (Hugging Face's Marian, Sockeye).
    'concatenated' is from tensor2tensor (the authors' code, get_timing_signal_1d): all sines, then
    all cosines, of pos / 10000^(i/(D/2-1)).
    """
    # Wave i has exponent i / half, the paper's 2i / D: with D = 8 they are 0, 1/4, 2/4 and 3/4.
    half = d_model // 2
    exponents = jnp.arange(half) / (half - 1 if layout == "concatenated" else half)
    angles = positions_BT[..., None].astype(jnp.float32) * 10000.0**-exponents
    waves = [jnp.sin(angles), jnp.cos(angles)]
    if layout == "interleaved":
        # sin 0, cos 0, sin 1, cos 1, ...
        return jnp.stack(waves, axis=-1).reshape(*positions_BT.shape, d_model)
    return jnp.concatenate(waves, axis=-1)


def rotate(x_BTHK: Array, positions_BT: Array) -> Array:
    """Rotates queries or keys by their positions (rotary: Su et al. 2021, equation 34).

    Components 2i and 2i+1 turn by the angle pos / 10000^(2i/K), those of the sinusoids. A product
    of a query at t and a key at s then depends on s - t, not on t and s.
    """
    waves_BTK = sinusoids(positions_BT, x_BTHK.shape[-1], "interleaved")
    # One angle a pair: sines are at the even components, cosines at the odd ones.
    sin, cos = waves_BTK[:, :, None, 0::2], waves_BTK[:, :, None, 1::2]
    even, odd = x_BTHK[..., 0::2], x_BTHK[..., 1::2]
    # (even, odd) is a vector of the plane, rotated counter-clockwise; pairs stay interleaved.
    rotated = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return rotated.reshape(x_BTHK.shape).astype(x_BTHK.dtype)


def alibi(query_positions_BT: Array, key_positions_BS: Array, num_heads: int) -> Array:
    """Returns what is added to scores_BHTS: -slope * |distance| (ALiBi, Press et al. 2022, 3).

    The slopes of H heads are 2^(-8/H), 2^(-16/H), ..., 2^-8. Departure: the paper rounds numbers of
    heads that are no power of two to one, and has distances to earlier keys only.
    """
    slopes_H = 2.0 ** (-8 * jnp.arange(1, num_heads + 1) / num_heads)
    distance_BTS = jnp.abs(key_positions_BS[:, None, :] - query_positions_BT[:, :, None])
    return -slopes_H[:, None, None] * distance_BTS[:, None]


def t5_buckets(
    query_positions_BT: Array, key_positions_BS: Array, max_distance: int, causal: bool
) -> Array:
    """Returns the bucket [B, T, S] of each key's distance (T5, Raffel et al. 2020, section 2.1).

    Half of the buckets are for single distances 0, 1, 2, ..., the others are wider and wider, up to
    `max_distance`; all farther keys are in the last. Causal, all 32 are for earlier keys. Otherwise
    0 to 15 are for earlier keys and the query's own, 16 to 31 for later ones. T5's scores are not
    scaled: its own model has config.model.score=dot, too.
    """
    distance_BTS = query_positions_BT[:, :, None] - key_positions_BS[:, None, :]
    first, size = 0, T5_BUCKETS
    if not causal:
        size //= 2
        first = jnp.where(distance_BTS < 0, size, 0)
        distance_BTS = jnp.abs(distance_BTS)
    distance_BTS = jnp.maximum(distance_BTS, 0)
    exact = size // 2
    # Bucket exact + i begins at exact * (max_distance / exact)^(i / (size - exact)).
    octaves = jnp.log(jnp.maximum(distance_BTS, exact) / exact) / math.log(max_distance / exact)
    wide_BTS = exact + (octaves * (size - exact)).astype(jnp.int32)
    bucket_BTS = jnp.where(distance_BTS < exact, distance_BTS, jnp.minimum(wide_BTS, size - 1))
    return first + bucket_BTS


def distance_rows(query_positions_BT: Array, key_positions_BS: Array, max_distance: int) -> Array:
    """Returns the row of a table of distances for each query and key (Shaw et al. 2018, 3.2).

    The table has R = 2 * max_distance + 1 rows, for distances from -max_distance to max_distance;
    farther ones are clipped. With max_distance 2, a key 0, 1, 5 positions later has row 2, 3, 4.
    """
    distance_BTS = key_positions_BS[:, None, :] - query_positions_BT[:, :, None]
    return jnp.clip(distance_BTS, -max_distance, max_distance) + max_distance


def take_distances(x_BHTR: Array, rows_BTS: Array) -> Array:
    """Looks up x at each key's distance from the query: x_BHTS[..., s] = x_BHTR[..., rows[s]].

    Neither this nor `sum_distances` makes an array [B, T, S, K] (Shaw et al. 2018, 3.3). On a CPU
    attention takes half the time that it does with products of one-hot distances.
    """
    return jnp.take_along_axis(x_BHTR, rows_BTS[:, None], axis=-1)


def sum_distances(x_BHTS: Array, rows_BTS: Array, num_rows: int) -> Array:
    """Returns x_BHTR: x_BHTS summed over the keys at each distance from their query.

    `rows_BTS` numbers the distances, as for `take_distances`, whose transpose this is.
    """
    x_BHTR = jax.ShapeDtypeStruct((*x_BHTS.shape[:3], num_rows), x_BHTS.dtype)
    return jax.linear_transpose(lambda x: take_distances(x, rows_BTS), x_BHTR)(x_BHTS)[0]
