"""The loss of a split: the sums of `losses.cross_entropy` over its batches, without dropout."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from transformer.data.batches import Batches
from transformer.distributed import inference, processes, step
from transformer.monitoring import memory, progress
from transformer.tasks import losses

Tree = Any


def of_split(
    params: Tree,
    batches: Batches,
    *,
    model: nn.Module,
    options: tuple,
    what: str,
    remedy: str,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, float] | None:
    """Returns the sums over all batches. Collective: each process computes its share.

    None in all processes if `should_stop()` was true in one before its share was done. `what`
    labels the progress; `options` and `remedy` are those of `of_batch`.
    """
    numbers, sums = processes.my_share(len(batches)), []
    total = sum(batches.shape(t)[0] for t in numbers)
    with progress.counter(what, total=total, unit="row") as advance:
        for t in numbers:
            if should_stop():
                break
            sums.append(of_batch(params, batches, t, model=model, options=options, remedy=remedy))
            advance(batches.shape(t)[0])
    # A process that was stopped must not leave the others waiting in gather_shares.
    if any(processes.all_gather(len(sums) < len(numbers))):
        return None
    return jax.tree.map(lambda *x: sum(x), *processes.gather_shares(sums, len(batches)))


def of_batch(
    params: Tree, batches: Batches, t: int, *, model: nn.Module, options: tuple, remedy: str
) -> dict[str, float]:
    """Returns the sums over batch t.

    `options` are the (name, value) of `cross_entropy`'s keywords. UserError, which names `remedy`,
    if the batch does not fit into the devices' memory.
    """
    num_rows, length = batches.shape(t)
    padded = step.rows_for_devices(num_rows, inference.num_devices(params))
    batch = inference.shard_rows(batches.rows(t, 0, padded), params)
    what = f"the loss of {num_rows} rows of {length} positions"
    with memory.fits_in_memory(what, remedy):
        return jax.tree.map(float, _sums(params, batch, model=model, options=options))


@functools.partial(jax.jit, static_argnames=("model", "options"))
def _sums(params: Tree, batch: dict, *, model: nn.Module, options: tuple) -> dict:
    """Returns the sums of `losses.cross_entropy` of a forward pass without dropout."""
    logits_BTV = model.apply({"params": params}, **batch["inputs"], train=False)
    targets_and_weights = batch["targets"], batch["weights"]
    return losses.cross_entropy(logits_BTV, *targets_and_weights, **dict(options))
