"""Token mixers: what lets the positions of a sequence read each other; one is self-attention.

A mixer is a Flax module in a line of registry.MIXERS. Its fields are `options`, `causal` (whether a
position reads no later one, as in a decoder) and `dtype`, then its own, which config.model.mixer
gives by name: "local(window=16)". Its methods are

    __call__(x_BTD, view, *, train) -> y_BTD               all positions at once; makes all params
    empty_state(x_BTD, room, num_beams) -> state           of x only B, D and the type are used
    step(x_BQD, queries, state) -> (y_BQD, state)          T further tokens of W beams, Q = T * W
    multiply_adds(length) -> int                           of one position, in matrix products

of which an encoder needs the first and the last. `view` says which positions are one text
(`segments_BT`; None: a row is one text), and which see which (`mask_BTS`): texts of a row must not
mix, and padding must not change a text. T is 1 in a search, and more where a language model reads
what it continues. `queries.per_beam` and `queries.in_order` (cache.py) lead from x_BQD to x_BWTD
and back. A state is any pytree of arrays [B, W, ...], sums among them in float32, which are
gathered when beams are reordered; or `Slots`, which stay where they are (cache.py). A mixer may
have

    both_ways = False           it cannot be in an encoder, which reads later positions, too
    takes_packed_rows = False   a row may hold one text only

Params that are called `inner/kernel` [D, F], `outer/kernel` [F, D], or as in attention are sharded
by the rules of distributed/layout.py, others are replicated: as they must be where a loop over
positions splits them, as an LSTM its gates.
"""

import ast
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import registry
from transformer.errors import UserError, check_value
from transformer.models import cache, fields
from transformer.models.attention import MultiHeadAttention, View
from transformer.models.cache import Queries, Slots
from transformer.models.layer_options import LayerOptions

Array = jax.Array
GIVEN = {"options", "causal", "dtype"} | fields.FLAX


class SelfAttention(MultiHeadAttention):
    """Attends from each position to those of its own sequence (paper 3.2.3)."""

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        keys_values = self.project(x_BTD, view.query_positions_BT)
        return super().__call__(x_BTD, keys_values, view, train=train)

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Slots:
        # Only the shapes of these keys and values are read: XLA drops the products.
        positions_BT = jnp.zeros(x_BTD.shape[:2], jnp.int32)
        return cache.empty_slots(self.project(x_BTD, positions_BT), room, num_beams)

    def step(self, x_BQD: Array, queries: Queries, state: Slots) -> tuple[Array, Slots]:
        keys_values = self.project(x_BQD, queries.view.query_positions_BT)
        # Written before it is read: a token attends to itself, too.
        state = cache.write(state, queries.position * queries.num_beams, keys_values)
        return super().__call__(x_BQD, state, queries.view, train=False), state


def constructors(
    options: LayerOptions, causal: bool, dtype: jnp.dtype
) -> tuple[Callable[..., nn.Module], ...]:
    """Returns the constructor of each layer's mixer, by the pattern `options.mixer`.

    UserError for a pattern that names no mixers, or one that cannot be in such a stack.
    """
    pattern = parse(options.mixer)
    for mixer, _ in pattern:
        if not causal and not getattr(mixer, "both_ways", True):
            raise UserError(
                f"config.model.mixer={options.mixer!r}: {mixer.__name__} reads earlier positions "
                "only, an encoder reads later ones, too: give the decoder alone another mixer by "
                "config.model.decoder_mixer"
            )
    given = {"options": options, "causal": causal, "dtype": dtype}
    # Layer i has element i of the pattern, which is repeated: a,a,b is a,a,b,a,a,b in six layers.
    return tuple(
        functools.partial(mixer, **given, **arguments)
        for mixer, arguments in (pattern[i % len(pattern)] for i in range(options.num_layers))
    )


def parse(pattern: str) -> list[tuple[type[nn.Module], dict[str, Any]]]:
    """Returns the class and the fields of each mixer of a pattern such as "local(window=16), a".

    UserError if it is no list of mixers, each with exactly the fields of its own.
    """
    try:
        elements = ast.parse(f"[{pattern}]", mode="eval").body.elts
        calls = [x if isinstance(x, ast.Call) else ast.Call(x, [], []) for x in elements]
        named = [(x.func.id, {k.arg: ast.literal_eval(k.value) for k in x.keywords}) for x in calls]
        is_list = bool(calls) and not any(x.args for x in calls)
    except (SyntaxError, AttributeError, ValueError):
        is_list = False
    if not is_list:
        raise UserError(
            f"config.model.mixer={pattern!r} must be mixers with their fields, such as 'attention' "
            "or 'local(window=16),attention'"
        )
    return [(_mixer(name, arguments), arguments) for name, arguments in named]


def _mixer(name: str, arguments: dict[str, Any]) -> type[nn.Module]:
    """Returns the class of a mixer's name; UserError if it has not the fields `arguments`."""
    check_value("model.mixer", name, tuple(registry.MIXERS))
    mixer = registry.load(registry.MIXERS[name])
    types = {f.name: f.type for f in dataclasses.fields(mixer) if f.name not in GIVEN}
    if {key: type(value) for key, value in arguments.items()} != types:
        wanted = ", ".join(f"{key}={kind.__name__.upper()}" for key, kind in types.items())
        found = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise UserError(
            f"config.model.mixer: the mixer {name} is written "
            f"{f'{name}({wanted})' if types else name}, found {name}({found})"
        )
    return mixer
