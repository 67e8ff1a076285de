"""The stages of a search that are compiled: once for each static shape, and these values, however
many translators ask for it."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.data import tokenizer
from transformer.decoding import beam_search, sampling

Tree = dict


@functools.partial(jax.jit, static_argnames="dtype")
def in_dtype(parameters: Tree, *, dtype: str) -> Tree:
    """The matrices in the type they are multiplied in, once instead of at each step."""
    return jax.tree.map(lambda x: x.astype(dtype) if x.ndim > 1 else x, parameters)


@functools.partial(jax.jit, static_argnames=("model", "num_beams", "length", "room"))
def start(
    parameters: Tree,
    source_BS: jax.Array,
    draws: jax.Array,
    *,
    seed: int,
    model: nn.Module,
    num_beams: int,
    length: int,
    room: int,
) -> tuple[Tree, beam_search.Search, jax.Array]:
    """A batch's memory of `length` positions, its search before the first token, its keys."""
    apply = functools.partial(model.apply, {"params": parameters})
    B, S = source_BS.shape
    real_BS = source_BS != tokenizer.PAD
    positions_BS = jnp.broadcast_to(jnp.arange(S), (B, S))
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
    parameters: Tree,
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
    """The search gone on until a quarter of the sentences is left or the room is full."""
    step = functools.partial(model.apply, {"params": parameters}, method="step")
    options = {**dict(options), "until_active": until_active}
    if beam:
        return beam_search.beam_search(
            step, memory, search, bounds, reorder=model.reorder, **options
        )
    return sampling.sample(step, memory, search, bounds, rng_B, **options)


@functools.partial(jax.jit, static_argnames=("model", "room"))
def resized(state: tuple, keep: jax.Array, *, model: nn.Module, room: int) -> tuple:
    """The rows `keep` of a batch, with room for more tokens."""
    memory, search, bounds, rng_B = jax.tree.map(lambda x: x[keep] if x.ndim else x, state)
    more = ((0, 0), (0, 0), (0, room - search.tokens_BWT.shape[-1]))
    search = search._replace(
        live_tokens_BWT=jnp.pad(search.live_tokens_BWT, more),
        tokens_BWT=jnp.pad(search.tokens_BWT, more),
        cache=model.grow(search.cache, room),
    )
    return memory, search, bounds, rng_B
