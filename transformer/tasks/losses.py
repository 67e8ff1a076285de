"""Label-smoothed cross entropy, in sums over real tokens."""

import functools
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer.errors import UserError

Array = jax.Array
Tree = Any

SUMS = ("loss", "nats_per_token", "accuracy", "weight")
SMOOTHINGS = ("all_classes", "wrong_classes")


def cross_entropy(
    logits_BTV: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    label_smoothing: float,
    smoothed_over: str,
) -> dict[str, Array]:
    """Sums over the tokens of weight 1: 'loss', 'nats_per_token', 'accuracy', and their number,
    'weight'; divided by it they are what their names say.

    'loss' (nats) is the cross entropy to the smoothed target less that target's entropy, so that a
    perfect prediction scores 0; 'nats_per_token' is the unsmoothed negative log likelihood.
    Smoothing by epsilon (paper 5.4; Szegedy et al. 2015, section 7) gives the right class 1 -
    epsilon + epsilon/V and every other epsilon/V ('all_classes'); the paper's program gave 1 -
    epsilon and epsilon/(V - 1) ('wrong_classes'). Sums, not means: the update divides by the
    tokens of the global batch.
    """
    V = logits_BTV.shape[-1]
    if smoothed_over not in SMOOTHINGS:
        raise UserError(
            f"config.loss.smoothed_over is one of {SMOOTHINGS}, found {smoothed_over!r}"
        )
    off = label_smoothing / (V if smoothed_over == "all_classes" else V - 1)
    on = 1.0 - (V - 1) * off

    logits_BTV = logits_BTV.astype(jnp.float32)
    log_normaliser_BT = jax.nn.logsumexp(logits_BTV, axis=-1)
    right_BT = jnp.take_along_axis(logits_BTV, targets_BT[..., None], axis=-1)[..., 0]
    # The sum over V of target * logits, without a dense target: that is `off` everywhere, and
    # on - off more at the right class.
    expected_BT = (on - off) * right_BT + off * logits_BTV.sum(axis=-1)
    loss_BT = log_normaliser_BT - expected_BT - _entropy(on, off, V)
    correct_BT = right_BT >= logits_BTV.max(axis=-1)  # an argmax takes three times as long on a CPU
    return {
        "loss": (loss_BT * weights_BT).sum(),
        "nats_per_token": ((log_normaliser_BT - right_BT) * weights_BT).sum(),
        "accuracy": (correct_BT * weights_BT).sum(),
        "weight": weights_BT.sum(),
    }


def translation_loss(
    params: Tree,
    batch: dict,
    *,
    model: nn.Module,
    rng: Array,
    blocks: int,
    label_smoothing: float,
    smoothed_over: str,
) -> dict[str, Array]:
    """`cross_entropy` of a training forward pass over a batch of sentence pairs.

    Dropout draws from `rng`. With more than one block the logits are made in blocks (`in_blocks`)
    by the model's `hidden` and `logits`; with one, any model will do, and all sums have gradients.
    """
    apply = functools.partial(model.apply, {"params": params})
    forward = functools.partial(apply, **batch["inputs"], train=True, rngs={"dropout": rng})
    tokens = batch["targets"], batch["weights"]
    smoothing = {"label_smoothing": label_smoothing, "smoothed_over": smoothed_over}
    if blocks == 1:
        return cross_entropy(forward(), *tokens, **smoothing)
    logits_fn = lambda x_BTD: apply(x_BTD, method="logits")
    return in_blocks(logits_fn, forward(method="hidden"), *tokens, blocks=blocks, **smoothing)


def in_blocks(
    logits_fn: Callable[[Array], Array],
    x_BTD: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    blocks: int,
    label_smoothing: float,
    smoothed_over: str,
) -> dict[str, Array]:
    """`cross_entropy` of logits_fn(x_BTD), whose [B, T, V] are never in memory as a whole.

    The logits of a block of positions give that block's sums and gradients and are forgotten: with
    37,000 pieces, all of them would be the largest array of a training step. There are `blocks`
    blocks of positions, or fewer where that does not divide T. `logits_fn` may close over params.
    Only 'loss' has a gradient.
    """
    B, T = targets_BT.shape
    blocks = math.gcd(blocks, T)

    def split(array: Array) -> Array:  # along T, as B may be sharded: [blocks, B, T / blocks, ...]
        return array.reshape(B, blocks, T // blocks, *array.shape[2:]).swapaxes(0, 1)

    # `matrices` are the float arrays that logits_fn closes over and uses, of all params the output
    # matrix alone: a gradient of each is accumulated over the blocks.
    logits_fn, matrices = jax.closure_convert(logits_fn, x_BTD[:, : T // blocks])

    def loss(x_BTD: Array, matrices: list, targets_BT: Array, weights_BT: Array) -> tuple:
        logits_BTV = logits_fn(x_BTD, *matrices)
        sums = cross_entropy(
            logits_BTV,
            targets_BT,
            weights_BT,
            label_smoothing=label_smoothing,
            smoothed_over=smoothed_over,
        )
        return sums["loss"], sums

    sums = _sum_over_blocks(loss, split(x_BTD), matrices, split(targets_BT), split(weights_BT))
    return {name: s if name == "loss" else jax.lax.stop_gradient(s) for name, s in sums.items()}


# The gradient is computed with the loss, while a block's logits are there, and scaled when its
# cotangent is known. jax.checkpoint makes the logits twice: 11 % of a step of the base model.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum_over_blocks(loss: Callable, *arrays: Any) -> dict[str, Array]:
    return _sum_over_blocks_forward(loss, *arrays)[0]


def _sum_over_blocks_forward(loss: Callable, x: Array, matrices: list, *tokens: Array) -> tuple:
    """The sums over all blocks, and the gradients of 'loss' by x and the matrices."""
    gradient = jax.grad(loss, argnums=(0, 1), has_aux=True)

    def add(total: tuple, block: tuple) -> tuple:
        x_BTD, *tokens = block
        (x_gradient, gradients), sums = gradient(x_BTD, matrices, *tokens)
        return jax.tree.map(jnp.add, total, (sums, gradients)), x_gradient

    zeros = (dict.fromkeys(SUMS, jnp.float32(0)), jax.tree.map(jnp.zeros_like, matrices))
    (sums, gradients), x_gradient = jax.lax.scan(add, zeros, (x, *tokens))
    return sums, (x_gradient, gradients)


def _sum_over_blocks_backward(loss: Callable, gradients: tuple, cotangents: dict) -> tuple:
    scale = lambda gradient: (gradient * cotangents["loss"]).astype(gradient.dtype)
    return (*jax.tree.map(scale, gradients), None, None)


_sum_over_blocks.defvjp(_sum_over_blocks_forward, _sum_over_blocks_backward)


def _entropy(on: float, off: float, V: int) -> float:
    """The entropy of the smoothed target, in nats."""
    return -sum(count * p * math.log(p) for count, p in ((1, on), (V - 1, off)) if p > 0)


def summarise(means: dict[str, float]) -> dict[str, float]:
    """What else is logged of means over tokens: the perplexity."""
    return {"perplexity": math.exp(min(means["nats_per_token"], 700.0))}


def per_token(sums: dict[str, float]) -> dict[str, float]:
    """Means over tokens from the sums of `cross_entropy`, and what is made of them."""
    means = {name: sums[name] / sums["weight"] for name in SUMS[:-1]}
    return {**means, **summarise(means)}


def check(*, label_smoothing: float, smoothed_over: str, blocks: int) -> None:
    """UserError for values of `config.loss` that cannot work."""
    if smoothed_over not in SMOOTHINGS:
        raise UserError(
            f"config.loss.smoothed_over is one of {', '.join(SMOOTHINGS)}, found {smoothed_over!r}"
        )
    if not 0 <= np.float32(label_smoothing) < 1:
        raise UserError(
            f"config.loss.label_smoothing is from 0 to below 1, found {label_smoothing}"
        )
    if blocks < 1:
        raise UserError(f"config.loss.blocks is at least 1, found {blocks}")
