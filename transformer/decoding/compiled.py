"""The jitted stages of a search: module-level, so that all translators share the compiled code.

Each stage is compiled once per static shape and per value of its static arguments.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.data import tokenizer
from transformer.decoding import beam_search, sampling

Tree = dict


@functools.partial(jax.jit, static_argnames="dtype")
def cast_params(params: Tree, *, dtype: str) -> Tree:
    """Casts matrices to the type they are multiplied in, once instead of at each step."""
    return jax.tree.map(lambda x: x.astype(dtype) if x.ndim > 1 else x, params)


@functools.partial(jax.jit, static_argnames=("model", "num_beams", "length", "room"))
def start(
    params: Tree,
    source_BS: jax.Array,
    draws: jax.Array,
    *,
    seed: int,
    model: nn.Module,
    num_beams: int,
    length: int,
    room: int,
) -> tuple[Tree, beam_search.Search, jax.Array]:
    """Encodes a batch: its memory, the search before the first token, and a key for each row.

    The source is padded from S to `length` after encoding, so that the decoder is compiled for few
    lengths and the encoder wastes little on padding. `draws`, int [B, n], are folded into the seed.
    """
    apply = functools.partial(model.apply, {"params": params})
    B, S = source_BS.shape
    real_BS = source_BS != tokenizer.PAD
    positions_BS = jnp.broadcast_to(jnp.arange(S), (B, S))
    # One sentence a row: segment 1, and 0 for padding.
    memory = apply(source_BS, positions_BS, real_BS.astype(jnp.int32), train=False, method="encode")
    pad = lambda x: jnp.pad(x, ((0, 0), (0, length - S), *[(0, 0)] * (x.ndim - 2)))
    memory = jax.tree.map(pad, memory)
    memory, cache = apply(memory, pad(real_BS), room, num_beams, method="prepare")
    rng_B = jnp.broadcast_to(jax.random.key(seed), (B,))
    for number_B in draws.T:
        rng_B = jax.vmap(jax.random.fold_in)(rng_B, number_B)
    return memory, beam_search.begin(cache, B, num_beams, room), rng_B


@functools.partial(jax.jit, static_argnames=("model", "beam", "options", "until_active"))
def advance(
    params: Tree,
    memory: Tree,
    search: beam_search.Search,
    bounds: beam_search.Bounds,
    rng_B: jax.Array,
    *,
    model: nn.Module,
    beam: bool,
    options: tuple,
    until_active: int,
) -> beam_search.Search:
    """Continues a search until at most `until_active` sentences are active or the room is full.

    `beam` is beam search, else sampling; `options` are the keyword arguments of either, as pairs.
    """
    step = functools.partial(model.apply, {"params": params}, method="step")
    options = {**dict(options), "until_active": until_active}
    if beam:
        return beam_search.beam_search(
            step, memory, search, bounds, reorder=model.reorder, **options
        )
    return sampling.sample(step, memory, search, bounds, rng_B, **options)


@functools.partial(jax.jit, static_argnames=("model", "room"))
def resize(state: tuple, rows: jax.Array, *, model: nn.Module, room: int) -> tuple:
    """Gathers `rows` of (memory, search, bounds, rng_B) and grows their room for tokens."""
    # Scalars, such as the search's t, are common to all rows.
    memory, search, bounds, rng_B = jax.tree.map(lambda x: x[rows] if x.ndim else x, state)
    growth = ((0, 0), (0, 0), (0, room - search.tokens_BWT.shape[-1]))
    search = search._replace(
        live_tokens_BWT=jnp.pad(search.live_tokens_BWT, growth),
        tokens_BWT=jnp.pad(search.tokens_BWT, growth),
        cache=model.grow(search.cache, room),
    )
    return memory, search, bounds, rng_B
