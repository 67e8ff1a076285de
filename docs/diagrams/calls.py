"""What a model calls, in which order, and what shapes come out: the diagrams are made of it."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from configs import wmt_base
from transformer.models import fields

Tree = Any
# Of batch, source and target: sizes that no other axis has. Only shapes are computed.
LETTERS = {1009: "B", 1013: "S", 1019: "T"}
B, S, T = LETTERS


class Call(NamedTuple):
    """A call of a module's method."""

    module: nn.Module
    name: str  # 'self_attention', 'self_attention.project'; of the whole model '', '.encode'
    params: int  # of the module
    output: Tree  # shapes
    inside: list["Call"]


@functools.cache
def paper() -> Call:
    """Returns the call of the paper's base model."""
    config = wmt_base.get_config()
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), config.vocabulary.size)
    return call(fields.build(config.architecture, config.model.to_dict(), **sizes))


def call(model: nn.Module) -> Call:
    """Returns the call of a model of sentence pairs, and all calls inside of it."""
    inputs = {
        f"{side}{of}": jax.ShapeDtypeStruct((B, length), np.int32)
        for side, length in (("source", S), ("target", T))
        for of in ("", "_positions", "_segments")
    }
    init = functools.partial(model.init, train=False)
    params = jax.eval_shape(init, jax.random.key(0), **inputs)["params"]
    count = lambda tree: sum(int(np.prod(x.shape)) for x in jax.tree.leaves(tree))
    begun = [[]]  # the calls inside of each call that has begun

    def record(method: Callable, arguments: tuple, options: dict, context: Any) -> Any:
        begun.append([])
        output, inside = method(*arguments, **options), begun.pop()
        module, of = context.module, context.method_name
        name = "/".join(module.path[-1:]) + (f".{of}" if of != "__call__" else "")
        own = functools.reduce(lambda tree, key: tree.get(key, {}), module.path, params)
        # A scan traces its body more than once.
        if of != "setup" and name not in [other.name for other in begun[-1]]:
            shapes = jax.tree.map(np.shape, output)
            begun[-1].append(Call(module, name, count(own), shapes, inside))
        return output

    with nn.intercept_methods(record):
        apply = lambda params, inputs: model.apply({"params": params}, **inputs, train=False)
        jax.eval_shape(apply, params, inputs)
    return begun[0][-1]


def every(call: Call) -> Iterator[Call]:
    """Yields the calls inside of another, in their order."""
    for inside in call.inside:
        yield inside
        yield from every(inside)


def find(call: Call, name: str) -> Call:
    """Returns the first call of this name inside of another."""
    return next(x for x in every(call) if x.name == name)


def layers(stack: Call) -> list[Call]:
    """Returns the calls of a stack's layers."""
    return [x for x in stack.inside if x.name.startswith("layers_")]


def sublayers(layer: Call) -> list[list[Call | None]]:
    """Returns, for each sub-layer, what is called: it, its norm, and None for the sum of both.

    They are in the order of the computation, in which the norm is last (post) or first (pre).
    """
    found = []
    for residual in layer.inside:
        own = f"{residual.name}."  # methods of it, such as that which calls its norm
        inside = [x.inside if x.name.startswith(own) else [x] for x in residual.inside]
        calls = [x for x in itertools.chain(*inside) if x.name != "dropout"]
        is_norm = [x.name.endswith("_norm") for x in calls]
        if residual.module.options.residual != "none":
            calls.insert(is_norm.index(False) + 1, None)
        found.append(calls)
    return found


def shape(sizes: tuple[int, ...]) -> str:
    """Writes a shape as [B, S, 512]."""
    return f"[{', '.join(LETTERS.get(size, f'{size:,}') for size in sizes)}]"
