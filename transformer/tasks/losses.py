"""Logits -> sums over real tokens: label-smoothed cross entropy."""

import functools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer.errors import UserError
from transformer.models import dense

Array = jax.Array
Tree = dict

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
    'weight'; divided by it, they are what their names say.

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
    # sum_v target_v * log p_v, without writing the target down: it is off everywhere and on - off
    # more at one.
    expected_BT = (on - off) * right_BT + off * logits_BTV.sum(axis=-1)
    loss_BT = log_normaliser_BT - expected_BT - _entropy(on, off, V)
    correct_BT = right_BT >= logits_BTV.max(axis=-1)  # an argmax takes three times as long on a CPU
    return {
        "loss": (loss_BT * weights_BT).sum(),
        "nats_per_token": ((log_normaliser_BT - right_BT) * weights_BT).sum(),
        "accuracy": (correct_BT * weights_BT).sum(),
        "weight": weights_BT.sum(),
    }


def in_blocks(
    logits: Callable[[Array, Array], Array],
    x_BTD: Array,
    matrix_VD: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    blocks: int,
    **smoothing: float | str,
) -> dict[str, Array]:
    """`cross_entropy` of logits(x, matrix), which are never in memory as a whole.

    They are made for a block of positions after the other and forgotten once they have given the
    block's sums and gradient: with 37,000 pieces, they would be the largest arrays of a training
    step. There are `blocks` of them, or fewer if that does not divide T. Only 'loss' has a
    gradient.
    """
    B, T = targets_BT.shape
    blocks = math.gcd(blocks, T)

    def split(array: Array) -> Array:  # along T: B may be spread over devices
        return array.reshape(B, blocks, T // blocks, *array.shape[2:]).swapaxes(0, 1)

    def block_sums(x_BTD: Array, matrix_VD: Array, targets_BT: Array, weights_BT: Array) -> tuple:
        sums = cross_entropy(logits(x_BTD, matrix_VD), targets_BT, weights_BT, **smoothing)
        return sums["loss"], sums

    sums = _summed(block_sums, split(x_BTD), matrix_VD, split(targets_BT), split(weights_BT))
    return {name: s if name == "loss" else jax.lax.stop_gradient(s) for name, s in sums.items()}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _summed(block_sums: Callable, *arrays: Array) -> dict[str, Array]:
    return _summed_forward(block_sums, *arrays)[0]


def _summed_forward(block_sums: Callable, x: Array, matrix_VD: Array, *rest: Array) -> tuple:
    """The sums over all blocks, and the gradients of 'loss', which is linear in them."""
    gradient = jax.grad(block_sums, argnums=(0, 1), has_aux=True)

    def add(total: tuple, block: tuple) -> tuple:
        x_BTD, *others = block
        (x_gradient, matrix_gradient), sums = gradient(x_BTD, matrix_VD, *others)
        return jax.tree.map(jnp.add, total, (sums, matrix_gradient)), x_gradient

    zeros = (dict.fromkeys(SUMS, jnp.float32(0)), jnp.zeros_like(matrix_VD))
    (sums, matrix_gradient), x_gradient = jax.lax.scan(add, zeros, (x, *rest))
    return sums, (x_gradient, matrix_gradient)


def _summed_backward(block_sums: Callable, gradients: tuple, cotangents: dict) -> tuple:
    scale = lambda gradient: (gradient * cotangents["loss"]).astype(gradient.dtype)
    return (*map(scale, gradients), None, None)


_summed.defvjp(_summed_forward, _summed_backward)


def _entropy(on: float, off: float, V: int) -> float:
    """Of the smoothed target, in nats."""
    return -sum(count * p * math.log(p) for count, p in ((1, on), (V - 1, off)) if p > 0)


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
    options = {"train": True, "rngs": {"dropout": rng}, "method": "factors"}
    factors = model.apply({"params": params}, **batch["inputs"], **options)
    tokens = (batch["targets"], batch["weights"])
    smoothing = {"label_smoothing": label_smoothing, "smoothed_over": smoothed_over}
    return in_blocks(dense.logits, *factors, *tokens, blocks=blocks, **smoothing)


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
