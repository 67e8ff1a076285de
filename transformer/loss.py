"""Logits -> sums over real tokens: label-smoothed cross entropy."""

import math

import jax
import jax.numpy as jnp

Array = jax.Array

SUMS = ("loss", "nll", "correct", "tokens")
SMOOTHINGS = ("all_classes", "wrong_classes")


def cross_entropy(
    logits_BTV: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    label_smoothing: float,
    smoothed_over: str,
) -> dict[str, Array]:
    """Sums over the tokens of weight 1: 'loss', 'nll', 'correct', and how many there are, 'tokens'.

    'loss' (nats) is the cross entropy to the smoothed target less that target's entropy, so that a
    perfect prediction scores 0; 'nll' is the unsmoothed negative log likelihood. Smoothing by
    epsilon (paper 5.4; Szegedy et al. 2015, section 7) gives the right class 1 - epsilon +
    epsilon/V and every other epsilon/V ('all_classes'); the paper's program gave 1 - epsilon and
    epsilon/(V - 1) ('wrong_classes'). Sums, not means: the update divides by the tokens of the
    global batch.
    """
    V = logits_BTV.shape[-1]
    if smoothed_over not in SMOOTHINGS:
        raise ValueError(
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
        "nll": ((log_normaliser_BT - right_BT) * weights_BT).sum(),
        "correct": (correct_BT * weights_BT).sum(),
        "tokens": weights_BT.sum(),
    }


def _entropy(on: float, off: float, V: int) -> float:
    """Of the smoothed target, in nats."""
    return -sum(count * p * math.log(p) for count, p in ((1, on), (V - 1, off)) if p > 0)
