"""Label-smoothed cross entropy (paper, section 5.4), as sums over the tokens that are not padding.

The update divides the sums by the weight of the global batch.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict

from transformer.models import dense, kernels
from transformer.models.ensemble import Ensemble

Array = jax.Array
Tree = Any


def token_loss(
    params: Tree, batch: dict, *, model: nn.Module, rng: Array, blocks: int, **options: Any
) -> dict[str, Array]:
    """Returns the sums of `cross_entropy` for a forward pass with dropout, and 'filled'.

    `rng` is for dropout; 'filled' is the number of targets that are not padding; `options` are the
    keywords of `cross_entropy`.

    If the model has methods `hidden` and `logits`, logits have the dtype of its activations, and
    blocks > 1 computes them in blocks (see `in_blocks`). With blocks = 1 all sums have gradients,
    not only 'loss'.
    """
    x_BTD, logits_of, sown = _before_logits(model, params, batch, train=True, rngs={"dropout": rng})
    targets_BT, weights_BT = batch["targets"], batch["weights"]
    # Logits are the step's largest array; in bfloat16 they halve the memory traffic.
    logits_fn = lambda x_BTD: logits_of(x_BTD, x_BTD.dtype)
    if blocks == 1:
        sums = cross_entropy(logits_fn(x_BTD), targets_BT, weights_BT, **options)
    else:
        sums = in_blocks(logits_fn, x_BTD, targets_BT, weights_BT, blocks=blocks, **options)
    return with_sown({**sums, "filled": sums["weight"]}, sown)


@functools.partial(jax.jit, static_argnames=("model", "options"))
def sums_and_nats(
    params: Tree, batch: dict, *, model: nn.Module, options: tuple
) -> tuple[dict[str, Array], tuple[Array]]:
    """Returns the sums of `cross_entropy` without dropout, and the nats of each token, [B, T].

    It is an `outcome` of `evaluation.SplitSums`. `options` are config.loss as (name, value) pairs,
    because a static argument must be hashable.
    """
    options = dict(options)
    blocks = options.pop("blocks")
    x_BTD, logits_of, sown = _before_logits(model, params, batch, train=False)

    def loss(arrays: tuple[Array, Array, Array]) -> tuple:
        x_BTD, targets_BT, weights_BT = arrays
        logits_BTV = logits_of(x_BTD, jnp.float32)
        sums = cross_entropy(logits_BTV, targets_BT, weights_BT, **options)
        return sums, token_nats(logits_BTV, targets_BT)

    arrays = x_BTD, batch["targets"], batch["weights"]
    if blocks == 1:
        sums, nats_BT = loss(arrays)
    else:
        # The loop holds one block's logits in memory.
        sums, nats = jax.lax.map(loss, tuple(dense.split(x, blocks) for x in arrays))
        sums = jax.tree.map(jnp.sum, sums)
        # Undo `split`: [n, B, T / n] -> [B, n, T / n] -> [B, T].
        nats_BT = nats.swapaxes(0, 1).reshape(batch["targets"].shape)
    return with_sown(sums, sown), (nats_BT,)


def _before_logits(
    model: nn.Module, params: Tree, batch: dict, **options: Any
) -> tuple[Array, Callable[[Array, Any], Array], dict[str, Array]]:
    """Returns (x, logits_of, sown) of a forward pass, whose logits are logits_of(x, dtype).

    x is the output of the model's method `hidden`. Without this method, as in an ensemble, x is the
    logits, and blocks save no memory.
    """
    if not hasattr(type(model), "hidden"):
        logits_BTV, sown = forward(model, params, batch, **options)
        return logits_BTV, lambda logits_BTV, dtype: logits_BTV, sown
    x_BTD, sown = forward(model, params, batch, method="hidden", **options)
    return x_BTD, functools.partial(model.apply, {"params": params}, method="logits"), sown


def with_filled(loss: Callable, params: Tree, batch: dict, *, rng: Array) -> dict[str, Array]:
    """Returns the sums of a training loss, and 'filled', the positions that are not padding.

    It is for losses whose weight counts texts, or some of the tokens.
    """
    return {**loss(params, batch, rng=rng), "filled": (batch["inputs"]["segments"] > 0).sum()}


def only_sums(params: Tree, batch: dict, **options: Any) -> tuple[dict[str, Array], tuple]:
    """Returns the sums of `sums_and_nats`, from the same program; the nats stay on the devices."""
    return sums_and_nats(params, batch, **options)[0], ()


def forward(
    model: nn.Module, params: Tree, batch: dict, **options: Any
) -> tuple[Array, dict[str, Array]]:
    """Returns the model's output, and {name: sum over the batch} of its sown losses.

    A model may `sow("losses", name, value)`, in `__call__` or `hidden`, with a value [B, ...] such
    as a penalty or the balance of experts. A row counts if any of its positions has weight. Values
    of one name are added, and averaged over an ensemble's members.
    """
    output, sown = model.apply({"params": params}, **batch["inputs"], mutable=["losses"], **options)
    # Mask of the rows that are not padding, because a position has weight.
    is_real_B = batch["weights"].reshape(len(batch["weights"]), -1).any(axis=1)
    members = len(model.members) if isinstance(model, Ensemble) else 1
    sums = {}
    for (*_, name), values in flatten_dict(sown.get("losses", {})).items():
        for value in values:
            row_B = value.reshape(len(value), -1).sum(axis=1)
            # `where`, because a product would keep the non-finite loss of a row of padding.
            sums[name] = sums.get(name, 0.0) + jnp.where(is_real_B, row_B, 0.0).sum() / members
    return output, sums


def with_sown(sums: dict[str, Array], sown: dict[str, Array]) -> dict[str, Array]:
    """Adds each sown loss to the sums by its name, and all of them to 'loss'."""
    if taken := sums.keys() & sown.keys():
        raise ValueError(f"a model sows {', '.join(taken)} as a loss: this name is taken")
    return {**sums, **sown, "loss": sum(sown.values(), sums["loss"])}


def cross_entropy(
    logits_BTV: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    label_smoothing: float,
    smoothed_over: str,
) -> dict[str, Array]:
    """Returns the sums 'loss', 'nats_per_token', 'accuracy' and 'weight' over the tokens.

    `weights_BT` is 1 for a token and 0 for padding, so 'weight' is the number of tokens. 'loss'
    (nats) is the cross entropy with the smoothed target minus that target's entropy, so that a
    perfect prediction has loss 0. 'nats_per_token' is the negative log likelihood without
    smoothing.

    Label smoothing by epsilon (paper, section 5.4; Szegedy et al. 2015, section 7) gives the gold
    class 1 - epsilon + epsilon/V and every other class epsilon/V ('all_classes'); tensor2tensor
    gives 1 - epsilon and epsilon/(V - 1) ('wrong_classes').
    """
    V = logits_BTV.shape[-1]
    off = label_smoothing / {"all_classes": V, "wrong_classes": V - 1}[smoothed_over]
    on = 1.0 - (V - 1) * off

    sums_over_classes = kernels.chosen().class_sums(logits_BTV, targets_BT)
    log_normaliser_BT, gold_BT, sum_BT, highest_BT = sums_over_classes
    # The sum over V of target * logits, without a dense target [B, T, V]. The target is `off` for
    # every class, plus on - off for the gold class.
    expected_BT = (on - off) * gold_BT + off * sum_BT
    # Entropy of the smoothed target in nats, the minimum of the cross entropy.
    entropy = -sum(count * p * math.log(p) for count, p in ((1, on), (V - 1, off)) if p > 0)
    loss_BT = log_normaliser_BT - expected_BT - entropy
    correct_BT = gold_BT >= highest_BT  # on a CPU, argmax takes three times as long
    return {
        "loss": (loss_BT * weights_BT).sum(),
        "nats_per_token": ((log_normaliser_BT - gold_BT) * weights_BT).sum(),
        "accuracy": (correct_BT * weights_BT).sum(),
        "weight": weights_BT.sum(),
    }


def token_nats(logits_BTV: Array, targets_BT: Array) -> Array:
    """Returns the negative log likelihood of each target, [B, T] in float32."""
    log_normaliser_BT, gold_BT, *_ = kernels.chosen().class_sums(logits_BTV, targets_BT)
    return log_normaliser_BT - gold_BT


def in_blocks(
    logits_fn: Callable[[Array], Array],
    x_BTD: Array,
    targets_BT: Array,
    weights_BT: Array,
    *,
    blocks: int,
    **options: Any,
) -> dict[str, Array]:
    """Returns the sums of `cross_entropy` of logits_fn(x_BTD), never holding all of [B, T, V].

    Each block of positions computes its logits, sums and gradients, and frees the logits before the
    next block. With 37,000 pieces all logits would be the largest array of a training step.
    `logits_fn` may close over params. Only 'loss' has a gradient.
    """
    split = functools.partial(dense.split, blocks=blocks)
    x_blocks = split(x_BTD)

    # Turn the float arrays in logits_fn's closure into arguments, so that their gradients can be
    # accumulated over the blocks. Of the params, only the output matrix is among them.
    logits_fn, matrices = jax.closure_convert(logits_fn, x_blocks[0])

    def loss(x_BTD: Array, matrices: list, targets_BT: Array, weights_BT: Array) -> tuple:
        sums = cross_entropy(logits_fn(x_BTD, *matrices), targets_BT, weights_BT, **options)
        return sums["loss"], sums

    sums = dense.sum_over_blocks(loss, x_blocks, matrices, split(targets_BT), split(weights_BT))
    return {name: s if name == "loss" else jax.lax.stop_gradient(s) for name, s in sums.items()}


def summarise(means: dict[str, float]) -> dict[str, float]:
    """Returns the perplexity, computed from means per token."""
    return {"perplexity": math.exp(min(means["nats_per_token"], 700.0))}  # e^710 overflows


def rows(scores: dict[str, float], of: str = "tokens") -> dict[str, str]:
    """Formats the means of `per_token` as rows of a table, {name: text}."""
    return {
        "loss": f"{scores['loss']:.4f}",
        "perplexity": f"{scores['perplexity']:.3f}",
        "accuracy": f"{scores['accuracy']:.1%} of {of}",
    }


def per_token(sums: dict[str, float]) -> dict[str, float]:
    """Returns means per token of the sums of `sums_and_nats`, and the perplexity."""
    means = {name: x / sums["weight"] for name, x in sums.items() if name != "weight"}
    return {**means, **summarise(means)}
