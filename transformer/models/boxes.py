"""The boxes of figure 1. A key of config.model names the part in each box.

    mixer="attention"            score="scaled_dot"      positions="shaw(max_distance=16)"
    feed_forward="relu"          norm="layer"            residual="post"

A part is a line of registry.PARTS and a Flax module; a norm or a feed-forward network may be a
function that returns a module. A part takes any of its box's keywords (below, in brackets;
`causal`: no position reads a later one, as in a decoder). Its own fields are int, float, bool or
str; the key gives them by name, and a field may have a default. A part checks its own fields, and
may sow a loss. A mixer or a feed-forward network may be a pattern that the layers repeat:
"local(window=16),attention". The interface of each box:

    mixer (options, causal, dtype), lets the positions of a text read each other; y, not x + y:
        __call__(x_BTD, view, *, train) -> y_BTD           all positions at once; creates all params
        empty_state(x_BTD, room, num_beams) -> state       reads only B, D and the dtype of x
        step(x_BQD, queries, state) -> (y_BQD, state)      T further tokens of W beams, Q = T * W
        multiply_adds(length) -> int                       of one position, in matrix products
    score (), how well a query and a key match; a subclass of attention.ScaledDot, or alike:
        __call__(q_BTHK, k_BHKS) -> scores_BHTS in float32
        multiply_adds(num_heads, key_size) -> int          of one query, besides q . k
    positions (options, causal; max_positions of the input), a subclass of positions.Positions:
        __call__(x_BTD, positions_BT) -> x_BTD             of the input of the first layer
        heads(x_BTHK, positions_BT) -> x_BTHK              of self-attention's queries and keys
        scores(scores_BHTS, q_BTHK, score, view) -> scores_BHTS
        context(context_BTHC, weights_BHTS, view) -> context_BTHC
    feed_forward (options, causal, dtype), maps each position alone; None for no such sub-layer:
        __call__(x_BTD, view, *, train) -> y_BTD           view.segments_BT marks padding
        multiply_adds() -> int                             of one position
    norm (dtype):
        __call__(x_BTD) -> y_BTD
    residual (options, causal, dtype), calls the sub-layer between norm and sum, in its own order:
        __call__(x_BTD, sublayer, *, train) -> y_BTD
        multiply_adds                                      int: its own, of one position

An encoder's mixer needs `__call__` and `multiply_adds` only. `view` gives the segments
(`segments_BT`; None if a row is one text) and the mask (`mask_BTS`). Texts of a row must not mix,
and padding must not change a text. T is 1 in a search, and larger where a language model reads a
prompt. `queries.per_beam` and `queries.in_order` (cache.py) map x_BQD to x_BWTD and back. A state
is any pytree of arrays [B, W, ...], with sums in float32, or of `Slots` (cache.py). Reordering
beams gathers the arrays and leaves Slots alone. A mixer may have

    both_ways = False           cannot be in an encoder, because it reads earlier positions only
    takes_packed_rows = False   a row may hold one text only

The rules of distributed/layout.py shard params called `inner/kernel` [D, F], `outer/kernel` [F, D],
`experts/inner/kernel` [E, D, F], or as in attention. Other params are replicated. They must be
where a loop over positions splits them, as an LSTM splits its gates. Params of positions stand
beside those of their attention, so their names must differ.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn

from transformer import registry
from transformer.errors import UserError
from transformer.models import fields

Part = Callable[..., nn.Module]
GIVEN = {"options", "causal", "dtype", "max_positions", "vocabulary", "decode"} | fields.FLAX
PATTERNS = ("mixer", "feed_forward")  # boxes that may differ from layer to layer


class Named(NamedTuple):
    """A part as a config names it, with all of its own fields."""

    name: str
    code: Part
    fields: dict[str, Any]


def part(box: str, text: str, **given: Any) -> Part:
    """Returns the constructor of a part, with its own fields and the keywords in `given` it takes.

    Example: part("norm", "rms(epsilon=1e-5)", dtype=jnp.float32). UserError for an unknown part.
    """
    return parts(box, text, 1, **given)[0]


def parts(box: str, pattern: str, num_layers: int, **given: Any) -> tuple[Part, ...]:
    """Returns the constructor of each layer's part."""
    made = [constructor(x, **given) for x in parse(box, pattern)]
    # Layers repeat the pattern: a,a,b in six layers is a,a,b,a,a,b.
    return tuple(made[i % len(made)] for i in range(num_layers))


def constructor(entry: Named, **given: Any) -> Part:
    """Returns the code of a part with its own fields and the keywords in `given` that it takes."""
    takes = inspect.signature(entry.code).parameters
    taken = {key: value for key, value in given.items() if key in takes}
    return functools.partial(entry.code, **taken, **entry.fields)


def parse(box: str, pattern: str, key: str = "") -> list[Named]:
    """Returns the parts of a pattern such as "local(window=16), attention", defaults filled in.

    UserError if the pattern is not a list of the box's parts with their fields; its message names
    the `key` of config.model, by default the box.
    """
    return parse_names(registry.PARTS[box], f"model.{key or box}", pattern, several=box in PATTERNS)


def parse_names(table: dict[str, str], key: str, pattern: str, *, several: bool) -> list[Named]:
    """Returns what a pattern names in a table of the registry, `several` or one; see `parse`."""
    try:
        elements = ast.parse(f"[{pattern}]", mode="eval").body.elts
        calls = [x if isinstance(x, ast.Call) else ast.Call(x, [], []) for x in elements]
        pairs = [(x.func.id, {k.arg: ast.literal_eval(k.value) for k in x.keywords}) for x in calls]
        is_right = bool(calls) and not any(x.args for x in calls)
    except (SyntaxError, AttributeError, ValueError, TypeError):
        is_right = False
    if not is_right or (len(pairs) > 1 and not several):
        form = "a name with its fields, NAME or NAME(FIELD=1, TEXT='text')"
        form = f"{form}, or a pattern NAME,NAME" if several else f"one part: {form}"
        raise UserError(f"config.{key}={pattern!r} must be {form}")
    return [_with_fields(table, key, *x) for x in pairs]


def _with_fields(table: dict[str, str], key: str, name: str, given: dict) -> Named:
    """Returns a part with all its fields; UserError if the fields `given` do not fit."""
    code = registry.find(table, key, name)
    own = {k: x for k, x in inspect.signature(code).parameters.items() if k not in GIVEN}
    values = {k: x.default for k, x in own.items() if x.default is not x.empty} | given
    is_of = lambda x, kind: type(x) is kind or (kind is float and type(x) is int)
    if values.keys() != own.keys() or not all(is_of(values[k], own[k].annotation) for k in own):
        form = ", ".join(
            f"{k}={x.annotation.__name__.upper() if x.default is x.empty else repr(x.default)}"
            for k, x in own.items()
        )
        raise UserError(
            f"config.{key}: {name} is written {_written(name, form)}, found "
            f"{name}({_arguments(given)})"
        )
    # In the signature's order and types, so that equal parts are written out alike.
    return Named(name, code, {k: x.annotation(values[k]) for k, x in own.items()})


def written_out(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {key: pattern with all fields} for the keys of config.model that name parts.

    A run thus keeps its values when a default changes later. {} for a model without boxes.
    """
    box_of = {**{box: box for box in registry.PARTS}, "decoder_mixer": "mixer"}
    return {
        key: ",".join(_written(x.name, _arguments(x.fields)) for x in parse(box, values[key], key))
        for key, box in box_of.items()
        if values.get(key) and registry.PARTS.keys() <= set(values)
    }


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in values.items())


def _written(name: str, arguments: str) -> str:
    return f"{name}({arguments})" if arguments else name
