"""The loss of a split: the sums of `losses.cross_entropy` over its batches, without dropout."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data.batches import Batches
from transformer.distributed import inference, parallel_step, processes
from transformer.runtime import memory, progress
from transformer.tasks import losses

Tree = Any


class EvaluationLoss(NamedTuple):
    """What the loss of a split depends on, but for the params.

    `options` are the (name, value) of `config.loss`, `what` labels the progress, and `remedy` says
    what to do if a batch does not fit into the devices' memory.
    """

    batches: Batches
    model: nn.Module
    options: tuple[tuple[str, Any], ...]
    what: str
    remedy: str

    def rehearse(self, params: Tree) -> None:
        """Computes the sums of the largest batches; UserError if one does not fit into memory."""
        for t in self.batches.largest():
            self.batch(params, t)

    def sums(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float] | None:
        """Returns the sums over all batches. Collective: each process computes its share.

        None in all processes if `should_stop()` was true in one before its share was done.
        """
        outcome = self._sums_and_nats(params, should_stop, keep_nats=False)
        return outcome and outcome[0]

    def sums_and_nats(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, float], np.ndarray] | None:
        """Returns `sums`, and the cross entropy of each token in nats, in the order of the rows."""
        return self._sums_and_nats(params, should_stop, keep_nats=True)

    def _sums_and_nats(
        self, params: Tree, should_stop: Callable[[], bool], *, keep_nats: bool
    ) -> tuple[dict[str, float], np.ndarray] | None:
        numbers, outcomes = processes.my_share(len(self.batches)), []
        total = sum(map(self.batches.num_filled, numbers))
        with progress.counter(self.what, total=total, unit="row") as advance:
            for t in numbers:
                if should_stop():
                    break
                sums, nats = self.batch(params, t)
                outcomes.append((sums, nats.tolist() if keep_nats else []))
                advance(self.batches.num_filled(t))
        # A process that was stopped must not leave the others waiting in gather_shares.
        if any(processes.all_gather(len(outcomes) < len(numbers))):
            return None
        sums, nats = zip(*processes.gather_shares(outcomes, len(self.batches)), strict=True)
        return jax.tree.map(lambda *x: sum(x), *sums), np.concatenate(nats)

    def batch(self, params: Tree, t: int) -> tuple[dict[str, float], np.ndarray]:
        """Returns the sums over batch t, and the nats of each of its tokens.

        UserError if it does not fit into memory.
        """
        num_rows, length = self.batches.shape(t)
        padded = parallel_step.rows_for_devices(num_rows, inference.num_devices(params))
        batch = self.batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with memory.fits_in_memory(what, self.remedy):
            on_devices = inference.shard_rows(batch, params)
            sums, nats_BT = _sums(params, on_devices, model=self.model, options=self.options)
            sums, nats_BT = jax.tree.map(float, sums), np.asarray(nats_BT)
        return sums, nats_BT[batch["weights"] > 0]


@functools.partial(jax.jit, static_argnames=("model", "options"))
def _sums(params: Tree, batch: dict, *, model: nn.Module, options: tuple) -> tuple[dict, jax.Array]:
    return losses.evaluation_loss(params, batch, model=model, **dict(options))
