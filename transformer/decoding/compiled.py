"""The jitted stages of a search, and the threads that run them.

Stages are module-level functions, so that all translators share the programs compiled per static
shape and static argument.
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

Tree = dict
NEVER = (PAD, START)  # forbidden, because an imported model may find them likely


class Search(NamedTuple):
    """A batch's search in progress."""

    memory: Tree
    state: beam_search.DecodingState
    bounds: beam_search.Bounds
    rng_B: jax.Array  # for sampling methods


@functools.partial(jax.jit, static_argnames="model")
def cast_params(params: Tree, model: nn.Module) -> Tree:
    """Casts params to the model's dtype, except vectors (LayerNorm, biases).

    It is called once per text, so that no decoding step casts them again.
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
    """Returns a batch's memory, the state before the first token, and a random key per row.

    Encodes at length S, then pads axis 1 of the encoder's output to `source_length`. The encoder is
    thus compiled for many lengths with little padding, the decoder for few. The columns of
    `random_keys`, int [B, n], are folded into the seed.
    """
    # One sentence per row: segment 1, and 0 on padding.
    apply = functools.partial(model.apply, {"params": params})
    B, S = source_BS.shape
    positions_BS, segments_BS = pairs.positions_and_segments(source_BS)
    memory = apply(source_BS, positions_BS, segments_BS, train=False, method="encode")
    # Pad axis 1 from S to source_length, in x_BSD and x_BS alike; the mask with False.
    pad = lambda x: jnp.pad(x, [(0, source_length - S if i == 1 else 0) for i in range(x.ndim)])
    memory = jax.tree.map(pad, memory)
    memory, cache = apply(memory, pad(segments_BS > 0), room, num_beams, method="prepare")
    # Random numbers depend on the line, part and search, but not on the row or batch.
    rng_B = jnp.broadcast_to(jax.random.key(seed), (B,))
    for number_B in random_keys.T:
        rng_B = jax.vmap(jax.random.fold_in)(rng_B, number_B)
    return memory, beam_search.initial_state(cache, B, num_beams, room), rng_B


@functools.partial(
    jax.jit,
    static_argnames=("model", "extend", "options", "until_active"),
    donate_argnames="state",  # so that the loop writes into the same KV cache
)
def proceed(
    params: Tree,
    memory: Tree,
    state: beam_search.DecodingState,
    bounds: beam_search.Bounds,
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
    """Gathers `rows` of a search and grows the room for tokens.

    If `rows` is as long as the search, it must be all rows in order, and nothing is gathered.
    """
    if len(rows) < len(search.state.active_B):
        # All rows share scalars, such as the state's t.
        search = jax.tree.map(lambda x: x[rows] if x.ndim else x, search)
    times = room // search.state.tokens_BWT.shape[-1]
    return search._replace(state=search.state.grow(times))


class Workers:
    """Runs `count` threads that search one batch each; each static shape is compiled once.

    A count of 0 means one thread per CPU core, at most 8, and one on an accelerator.
    """

    def __init__(self, count: int):
        if not count:
            count = min(8, _num_cores()) if jax.default_backend() == "cpu" else 1
        self.count = count
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        self._compiled = set()  # shapes
        self._lock = threading.Lock()  # held by a worker while it compiles

    def call(self, stage: Callable, *arguments: Tree, **static: int) -> Any:
        """Calls a jitted stage, after waiting for another worker that compiles it."""
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
