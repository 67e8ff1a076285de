"""The training loop: train, validate, log and save, until the end, a signal or early stopping.

docs/one-batch.md follows one batch from text to new params.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.checkpoints.manager import Checkpoints
from transformer.checkpoints.store import signed
from transformer.data.batches import prefetch
from transformer.distributed import processes
from transformer.distributed.layout import Layout, gather_params, to_save
from transformer.distributed.parallel_step import make_any_process
from transformer.runtime import memory
from transformer.tasks.task import Task
from transformer.training import start
from transformer.training.meters import Meters, describe
from transformer.training.optimizer import params_to_score
from transformer.workdir.log import Log, OnLog

# A context manager around training that yields a function: whether to stop.
StopSignals = Callable[[], contextlib.AbstractContextManager[Callable[[], bool]]]


def run(
    config: ConfigDict,
    task: Task,
    workdir: Path,
    layout: Layout,
    stop_signals: StopSignals,
    listeners: Sequence[OnLog],
) -> tuple[int, bool]:
    """Trains; returns the step reached, and whether a signal stopped the run there.

    Each iteration validates, steps, logs and saves, in this order. A run killed while it validates
    thus validates first when it resumes. `listeners` get each line of the log. Collective.
    """
    num_steps, save_every = config.train.num_steps, config.train.save_every
    every, patience = config.evaluate.every, config.evaluate.patience
    due = Due(num_steps, save_every, every, patience, task.best_by, task.best_is)
    checkpoints, state, compiled_step = start.open_run(config, task, workdir, layout)
    step = int(state.step)
    log = Log(workdir, step, listeners)
    # Step t + 1 trains on batch t: load_batch -> shard_batch -> Batches.rows -> assemble.
    load = functools.partial(start.load_batch, task.batches, layout, config.train.accumulate)
    facts = describe(task, state, layout)
    if due.ends(step, log.lines):
        logging.info("already at step %d of %d: nothing left to train", step, num_steps)
    else:
        state = start.dry_run(state, compiled_step, load, task, layout)
        log.started(step, facts)
    stopping = False
    any_process = make_any_process(layout)  # (bool) -> whether any process passed True
    meters = Meters(task, log, step=step, num_steps=num_steps, every=config.train.log_every)
    prefetched = prefetch(load, range(step, num_steps))  # in a thread, from the first next() on
    with stop_signals() as signalled, contextlib.closing(meters), contextlib.closing(prefetched):
        while not stopping:
            if due.validates(step) and not log.has_validation(step):
                with meters.paused(), memory.trimmed():
                    params = params_to_score(state.params, state.opt_state)
                    validate(step, params, task, checkpoints, meters, layout)
            if due.ends(step, log.lines):
                break
            with meters.waiting_for_data():
                batch, shape = next(prefetched)
            # Asynchronous dispatch, except on a single CPU device (see
            # startup.compute_in_calling_thread). A non-finite update is skipped inside.
            state, metrics = compiled_step(state, batch)
            step += 1
            # A signal may reach one process only, but all must stop after the same step. They agree
            # two steps later, a single process at once.
            stopping = any_process(signalled())
            saving = stopping or due.saves(step)
            # Read all metrics before a checkpoint, because a resumed run does not log them again.
            meters.add(step, metrics, shape=shape, lag=0 if saving else 2)
            if saving:
                log.flush()
                # The next step may donate `state` as soon as `save` returns.
                checkpoints.save(step, *to_save(state, layout).saved)
        # Not in a `finally`: closing waits for all processes, and would hang if another has failed.
        checkpoints.close()
        log.close()
        return step, any(processes.all_gather(signalled()))  # later signals, too


def validate(
    step: int, params: dict, task: Task, checkpoints: Checkpoints, meters: Meters, layout: Layout
) -> None:
    """Scores the params, saves them if they are the best, and logs the scores. Collective."""
    checkpoints.finish()  # so that a kill from here on loses no step
    scores = task.evaluate(gather_params(params, layout))
    best = checkpoints.save_best(step, to_save(params, layout), scores[task.best_by])
    meters.validation(step, scores, best)  # last, because this line marks the validation as done


class Due(NamedTuple):
    """Decides whether a validation, a checkpoint or the end is due after a step."""

    num_steps: int
    save_every: int
    validate_every: int  # 0 for the last step only
    patience: int  # of early stopping, in validations; 0 for none
    best_by: str
    best_is: str

    def validates(self, step: int) -> bool:
        """Returns whether a validation is due."""
        period = self.validate_every
        return step == self.num_steps or bool(period and step and step % period == 0)

    def saves(self, step: int) -> bool:
        """Returns whether a checkpoint is due: at its period, and before every validation.

        A killed validation then loses no step, and checkpoints/ has a step before best/ does.
        """
        return step % self.save_every == 0 or self.validates(step)

    def ends(self, step: int, lines: list[dict]) -> bool:
        """Returns whether the run ends here: at its last step, or by early stopping.

        Early stopping depends on the log's `lines` only, so that a restarted run ends again.
        """
        stops_early = self.validates(step) and self.is_out_of_patience(lines)
        return step >= self.num_steps or stops_early

    def is_out_of_patience(self, lines: list[dict]) -> bool:
        """Returns whether the last `patience` validations of a log have no new best score.

        Example: patience 2, 'highest' and scores 3 5 4 5 stop, because a tie is no improvement.
        """
        validations = (x.get(self.best_by) for x in lines if x["kind"] == "validation")
        scores = [signed(x, self.best_is) for x in validations if isinstance(x, int | float)]
        # patience < len(scores), so that `before` is not empty.
        latest, before = scores[-self.patience :], scores[: -self.patience]
        return 0 < self.patience < len(scores) and max(latest) <= max(before)
