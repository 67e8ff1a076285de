"""Prompts -> continuations: a decoder-only model samples token by token.

Rows advance together: token n of a row is forced within the prompt, and sampled after it. The model
sees a window of at most `context` tokens. When the window is full, a new window starts with its
last half, so that a text, prompt included, may have any length. Example with a context of 4 and
letters for tokens (START precedes the text):

    window         predicts
    START A B C    A B C D
    B C D E        . . E F    B and C are recomputed, at positions 0 and 1
    D E F G        . . G H
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import Pieces
from transformer.decoding import compiled
from transformer.distributed import layout
from transformer.families.sampling.sampling import truncate
from transformer.models import fields

Array = jax.Array
Tree = dict

SAMPLING = ("max_tokens", "seed", "temperature", "top_k", "top_p")  # arguments of `sample`
BLOCK = 16  # tokens sampled on the device before they are copied to the host


def text(vocabulary: Pieces, ids: Sequence[int]) -> str:
    """Decodes ids, with END as a line break."""
    lines = [[]]
    for i in ids:
        if i == vocabulary.end:
            lines.append([])
        else:
            lines[-1].append(i)
    # Byte pieces can spell a line break, too.
    return "\n".join(line.replace("\n", " ") for line in vocabulary.decode(lines))


def sample(
    params: Tree,
    prompts: Sequence[Sequence[int]],
    random_keys: Sequence[tuple[int, int]],
    *,
    vocabulary: Pieces,
    max_tokens: int,
    num_lines: int = 0,
    **options: Any,
) -> Iterator[list[list[int]]]:
    """Yields the ids of all continuations so far, a list for each prompt, until all are complete.

    A continuation has `max_tokens` ids, or ends before its line break number `num_lines` (0: no
    limit). The other arguments are those of `blocks`.
    """
    ids = [[] for _ in prompts]
    forced = [len(prompt) for prompt in prompts]  # remaining tokens of the prompt
    breaks = [num_lines or math.inf] * len(prompts)  # remaining line breaks
    for block in blocks(params, prompts, random_keys, vocabulary=vocabulary, **options):
        for i, tokens in enumerate(block.tolist()):
            # Skip the prompt's tokens, which a block repeats first.
            for token in tokens[forced[i] :]:
                breaks[i] -= token == vocabulary.end
                if breaks[i] > 0 and len(ids[i]) < max_tokens:
                    ids[i].append(token)
            forced[i] = max(0, forced[i] - len(tokens))
        yield ids
        if all(n <= 0 or len(x) == max_tokens for n, x in zip(breaks, ids, strict=True)):
            return


def unprompted(params: Tree, count: int, *, vocabulary: Pieces, **options: Any) -> list[str]:
    """Returns `count` texts without a prompt; `options` are those of `sample`."""
    keys = [(0, number) for number in range(count)]
    params = compiled.cast_params(params, options["model"])
    *_, ids = sample(params, [[]] * count, keys, vocabulary=vocabulary, **options)
    return [text(vocabulary, row) for row in ids]


def blocks(
    params: Tree,
    prompts: Sequence[Sequence[int]],
    random_keys: Sequence[tuple[int, int]],
    *,
    model: nn.Module,
    context: int,
    vocabulary: Pieces,
    seed: int,
    block: int = BLOCK,
    **options: float,
) -> Iterator[np.ndarray]:
    """Yields blocks of the next tokens of all rows, int [rows, 1 to BLOCK], without end.

    A row first repeats its prompt, then samples. It starts as if a line had ended before it. END is
    the only special symbol that is sampled. A token depends on the tokens before it in its row,
    `seed`, the row's pair of `random_keys` and its position, not on other rows. `options` are
    temperature, top_k and top_p. `block` 1 yields the tokens one by one.
    """
    fields.check_methods(model)
    count, devices = len(prompts), layout.num_devices(params)
    # Pad to a multiple of the devices; padding rows are never yielded.
    num_rows = -(-count // devices) * devices
    prompts_BM = tokenizer.padded(prompts, num_rows, max(map(len, prompts)))
    keys = np.zeros((num_rows, 2), np.int32)
    keys[:count] = random_keys
    # Column n is the token before token n, the model's input.
    inputs_BT = np.full((num_rows, 1), vocabulary.end, np.int32)
    kept = context // 2
    # Blocks must divide windows: a context of 24 has blocks of 4, a context of 10 blocks of 1.
    block = math.gcd(context, kept, block)
    window = functools.partial(_window, params, model=model, context=context)
    never = (vocabulary.pad, vocabulary.start, vocabulary.unknown)
    advance = functools.partial(_advance, params, model=model, never=never, seed=seed, **options)
    # The index of the window's first input, and the window's (memory, cache), empty at first.
    first, state = 0, window(layout.shard_rows(inputs_BT[:, :0], params))
    while True:
        n = inputs_BT.shape[1] - 1
        if n - first == context:
            # The window is full, so rebuild the cache from its last half, at positions from 0.
            first = n - kept
            state = window(layout.shard_rows(inputs_BT[:, first:n], params))
        forced_BK = np.zeros((num_rows, block), np.int32)
        # PAD after the prompt: prompt 5 6 7 in blocks of 2 forces (5 6), (7 PAD), ...
        prompt_BK = prompts_BM[:, n : n + block]
        forced_BK[:, : prompt_BK.shape[1]] = prompt_BK
        rows = layout.shard_rows((inputs_BT[:, n], forced_BK, keys), params)
        tokens_BK, state = advance(state, *rows, np.int32(n), np.int32(n - first))
        inputs_BT = np.concatenate([inputs_BT, np.asarray(tokens_BK)], axis=1)
        yield inputs_BT[:count, n + 1 :]


@functools.partial(jax.jit, static_argnames=("model", "context"))
def _window(params: Tree, tokens_BT: Array, *, model: nn.Module, context: int) -> tuple:
    """Returns (memory, cache) of a window that starts with `tokens_BT`; T may be 0."""
    apply = functools.partial(model.apply, {"params": params})
    memory = apply(train=False, method="encode")
    # `prepare` reads only B of the source's mask.
    no_source_BS = jnp.ones((len(tokens_BT), 1), bool)
    memory, cache = apply(memory, no_source_BS, context, 1, method="prepare")
    if tokens_BT.shape[1]:
        _, cache = apply(tokens_BT[:, None], jnp.int32(0), memory, cache, method="step")
    return memory, cache


@functools.partial(
    jax.jit, static_argnames=("model", "never", "seed", "temperature", "top_k", "top_p")
)
def _advance(
    params: Tree,
    state: tuple,
    last_B: Array,
    forced_BK: Array,
    keys: Array,
    n: Array,
    position: Array,
    *,
    model: nn.Module,
    never: tuple[int, ...],
    seed: int,
    temperature: float,
    top_k: int,
    top_p: float,
) -> tuple[Array, tuple]:
    """Returns the tokens n, n + 1, ... of all rows, [B, K], and (memory, cache) after them.

    `last_B`, token n - 1, is at `position` of the window; `forced_BK` has PAD for tokens to sample.
    """
    apply = functools.partial(model.apply, {"params": params})
    memory, cache = state
    rng_B = jnp.broadcast_to(jax.random.key(seed), last_B.shape)
    # A row's key is seed -> item -> sample -> n, independent of batch and order.
    for number_B in keys.T:
        rng_B = jax.vmap(jax.random.fold_in)(rng_B, number_B)

    def extend(carry: tuple, forced_B: Array) -> tuple:
        cache, last_B, k = carry
        logits, cache = apply(last_B[:, None, None], position + k, memory, cache, method="step")
        # One beam and one token: [B, W = 1, T = 1, V].
        logits_BV = logits[:, 0, 0].at[:, list(never)].set(-jnp.inf)
        logits_BV = truncate(logits_BV / temperature, top_k=top_k, top_p=top_p)
        rng_of_n_B = jax.vmap(jax.random.fold_in, (0, None))(rng_B, n + k)
        token_B = jax.vmap(jax.random.categorical)(rng_of_n_B, logits_BV)
        token_B = jnp.where(forced_B == tokenizer.PAD, token_B, forced_B)
        return (cache, token_B, k + 1), token_B

    (cache, _, _), tokens_KB = jax.lax.scan(extend, (cache, last_B, jnp.int32(0)), forced_BK.T)
    return tokens_KB.T, (memory, cache)
