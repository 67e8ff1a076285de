"""The jitted stages of a search, and the threads in which they run.

Stages are module-level, so that all translators share the compiled code: once per static shape and
per value of their static arguments.
"""

import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import pairs
from transformer.data.tokenizer import PAD, START
from transformer.decoding import beam_search
from transformer.decoding.beam_search import Bounds

Tree = dict
NEVER = (PAD, START)  # no output has them, though a model trained elsewhere may find them likely


class Search(NamedTuple):
    """A search of a batch in progress."""

    memory: Tree
    state: beam_search.DecodingState
    bounds: Bounds
    rng_B: jax.Array  # of a method that draws


@functools.partial(jax.jit, static_argnames="model")
def cast_params(params: Tree, model: nn.Module) -> Tree:
    """Casts all params to the type of a model's activations, but vectors (LayerNorm, biases).

    Called once for a text, so that no step of decoding casts them again.
    """
    dtype = getattr(model, "dtype", "float32")
    return jax.tree.map(lambda x: x.astype(dtype) if x.ndim > 1 else x, params)


@functools.partial(jax.jit, static_argnames=("model", "num_beams", "source_length", "room"))
def start(
    params: Tree,
    source_BS: jax.Array,
    random_keys: jax.Array,
    *,
    seed: int,
    model: nn.Module,
    num_beams: int,
    source_length: int,
    room: int,
) -> tuple[Tree, beam_search.DecodingState, jax.Array]:
    """Encodes a batch: its memory, the state before the first token, and a random key per row.

    Encodes at length S, then pads axis 1 of the encoder's output to `source_length`: the encoder is
    compiled for many lengths and wastes little, the decoder for few. The columns of `random_keys`,
    int [B, n], are folded into the seed.
    """
    # One sentence a row: segment 1, and 0 on padding.
    apply = functools.partial(model.apply, {"params": params})
    B, S = source_BS.shape
    positions_BS, segments_BS = pairs.positions_and_segments(source_BS)
    memory = apply(source_BS, positions_BS, segments_BS, train=False, method="encode")
    # Axis 1 grows from S to source_length, in x_BSD as in x_BS; the mask is padded with False.
    pad = lambda x: jnp.pad(x, [(0, source_length - S if i == 1 else 0) for i in range(x.ndim)])
    memory = jax.tree.map(pad, memory)
    memory, cache = apply(memory, pad(segments_BS > 0), room, num_beams, method="prepare")
    # A sentence's random numbers depend on its line, part and search, not on its row or batch.
    rng_B = jnp.broadcast_to(jax.random.key(seed), (B,))
    for number_B in random_keys.T:
        rng_B = jax.vmap(jax.random.fold_in)(rng_B, number_B)
    return memory, beam_search.initial_state(cache, B, num_beams, room), rng_B


@functools.partial(
    jax.jit,
    static_argnames=("model", "extend", "options", "until_active"),
    donate_argnames="state",  # so that the loop writes into the KV cache that it is given
)
def advance(
    params: Tree,
    memory: Tree,
    state: beam_search.DecodingState,
    bounds: Bounds,
    rng_B: jax.Array,
    *,
    model: nn.Module,
    extend: Callable,
    options: tuple,
    until_active: int,
) -> beam_search.DecodingState:
    """Continues a search until at most `until_active` sentences are active or the room is full.

    `extend` and `options` are those of a `methods.Method`.
    """
    step = functools.partial(model.apply, {"params": params}, method="step")
    keywords = {"never": NEVER, "rng_B": rng_B, **dict(options)}
    extend = functools.partial(extend, step, memory, bounds, **keywords)
    unfinished = functools.partial(beam_search.is_unfinished, until_active)
    return jax.lax.while_loop(unfinished, extend, state)


@functools.partial(jax.jit, static_argnames="room")
def resize(search: Search, rows: jax.Array, *, room: int) -> Search:
    """Gathers `rows` of a search and grows their room for tokens.

    If `rows` has as many rows as the search, it must be all of them in order: none is gathered.
    """
    if len(rows) < len(search.state.active_B):
        # Scalars, such as the state's t, are common to all rows.
        search = jax.tree.map(lambda x: x[rows] if x.ndim else x, search)
    times = room // search.state.tokens_BWT.shape[-1]
    return search._replace(state=search.state.grow(times))


class Workers:
    """Holds `count` threads that search one batch each; only one of them compiles a static shape.

    A count of 0 means one thread for each core of a CPU, at most 8, and one for an accelerator.
    """

    def __init__(self, count: int):
        if not count:
            count = min(8, _num_cores()) if jax.default_backend() == "cpu" else 1
        self.count = count
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        # Shapes that are compiled, and the lock under which one worker compiles.
        self._compiled, self._lock = set(), threading.Lock()

    def call(self, stage: Callable, *arguments: Tree, **static: int) -> Any:
        """Calls a jitted stage; what another worker is compiling is waited for."""
        shape = (stage, *static.values(), *map(np.shape, jax.tree.leaves(arguments)))
        # Double-checked locking: read without the lock, then again once the lock is held.
        if shape not in self._compiled:
            with self._lock:
                if shape not in self._compiled:
                    results = stage(*arguments, **static)
                    self._compiled.add(shape)
                    return results
        return stage(*arguments, **static)


def _num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
