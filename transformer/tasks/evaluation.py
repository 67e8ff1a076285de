"""Scoring of a split: the record `Evaluation`, and the loop over a split's batches."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from transformer.data.batches import Batches
from transformer.distributed import layout, parallel_step, processes
from transformer.runtime import memory, progress

Tree = Any


class Evaluation(NamedTuple):
    """Scores params on every item of a split, as values and functions."""

    split: str  # its name in the config or in the corpus
    files: list[str]  # the paths that it was read from
    dataset: dict[str, Sequence[str]]  # the split as text, {name: one line per item}
    settings: dict[str, Any]  # all other settings that a result depends on
    # {role: name in `dataset` or in the outputs}, for --mode=report and compare. The roles are
    # 'input', 'reference', 'output' and 'measure', a number per item, such as its nats. A task may
    # leave out roles: {"input": "text", "measure": "nats"}.
    columns: dict[str, str]
    # (params) -> (scores, outputs), {name: number or text} and {name: lines}. Outputs include the
    # dataset. Those in `columns` have one line per item, in the dataset's order. Scores may have
    # 'samples', text for the log. Collective.
    score: Callable[[Tree], tuple[dict, dict]]
    rehearse: Callable[[Tree], None]  # scores the largest shapes, to run out of memory early
    rows: Callable[[dict], dict[str, str]]  # scores as a table, the main score first
    # (outputs) -> {name: number}, further scores of a result, too slow for validations.
    further: Callable[[dict], dict] = lambda outputs: {}


class SplitSums(NamedTuple):
    """Sums a loss over the batches of a split, and keeps its values for each token or item.

    `outcome` is a jitted function (params, batch) -> ({name: sum}, arrays). The arrays have the
    shape of batch["weights"]; a value counts where its weight is not 0.
    """

    batches: Batches
    outcome: Callable[[Tree, dict], tuple[dict, tuple]]
    what: str  # labels the progress
    remedy: str  # for a batch that does not fit into the devices' memory
    unit: str = "row"

    def rehearse(self, params: Tree) -> None:
        """Computes the largest batches; UserError if a batch does not fit into memory."""
        for t in self.batches.largest():
            self.score_batch(params, t)

    def score(self, params: Tree) -> tuple[dict[str, float], list[np.ndarray]]:
        """Returns the sums over all batches, and the arrays' values in the order of the rows.

        `Batches.items` maps rows to items; rows are often sorted by length. Collective: each
        process computes its share of the batches.
        """
        numbers = processes.my_share(len(self.batches))
        total = sum(map(self.batches.num_filled, numbers))
        outcomes = []
        with progress.counter(self.what, total=total, unit=self.unit) as advance:
            for t in numbers:
                outcomes.append(self.score_batch(params, t))
                advance(self.batches.num_filled(t))
        # [(sums, arrays) of each batch] -> all batches' sums, all batches' arrays.
        sums, values = zip(*processes.gather_shares(outcomes, len(self.batches)), strict=True)
        sums = jax.tree.map(lambda *x: sum(x), *sums)
        return sums, [np.concatenate(x) for x in zip(*values, strict=True)]

    def score_batch(self, params: Tree, t: int) -> tuple[dict[str, float], list[list]]:
        """Returns the sums over batch t, and the arrays' values without padding.

        UserError if the batch does not fit into memory.
        """
        num_rows, length = self.batches.shape(t)
        # Pad with rows of weight 0: on 8 devices, 10 rows become 16.
        padded = parallel_step.rows_for_devices(num_rows, layout.num_devices(params))
        batch = self.batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with memory.fits_in_memory(what, self.remedy):
            sums, arrays = jax.device_get(self.outcome(params, layout.shard_rows(batch, params)))
        # A boolean mask flattens: weights [[1, 0], [1, 1]] select 5 7 8 from [[5, 6], [7, 8]].
        return jax.tree.map(float, sums), [x[batch["weights"] > 0].tolist() for x in arrays]
