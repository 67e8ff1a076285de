"""The training loop: train, validate, save and log, until the end, a signal or early stopping."""

import contextlib
import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from transformer.checkpoints.manager import Checkpoints
from transformer.checkpoints.workdir import write_config
from transformer.data.batches import Batches, prefetch
from transformer.distributed.inference import gather_params
from transformer.distributed.layout import Layout, from_saved, state_shardings, to_restore, to_save
from transformer.distributed.processes import stop_signals
from transformer.distributed.step import (
    compile_step,
    make_any_process,
    rows_for_devices,
    shard_batch,
)
from transformer.errors import UserError
from transformer.monitoring import log as logs
from transformer.monitoring import memory, progress
from transformer.monitoring.scores import is_out_of_patience
from transformer.monitoring.trace import traced
from transformer.tasks.task import Task
from transformer.training import optimizer as optimizers
from transformer.training.meters import Meters, describe
from transformer.training.update import TrainState, init_state, train_step

Tree = Any

# What to do if a step does not fit into memory.
LOWER = (
    "lower config.data.batch_tokens, raise config.train.accumulate, or set config.model.remat=True"
)


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.train`, `optimizer` and `evaluate`."""
    for least, keys in {
        1: ("train.num_steps", "train.accumulate", "train.log_every", "train.save_every"),
        0: ("train.seed", "train.profile", "evaluate.every", "evaluate.patience"),
    }.items():
        for section, key in (key.split(".") for key in keys):
            if config[section][key] < least:
                raise UserError(
                    f"config.{section}.{key} is at least {least}, found {config[section][key]}"
                )
    if config.evaluate.average_last < 1:
        raise UserError(
            f"config.evaluate.average_last is at least 1, found {config.evaluate.average_last}"
        )
    if config.train.seed >= 2**31:
        raise UserError(f"config.train.seed is below 2^31, found {config.train.seed}")
    optimizers.check(**config.optimizer.to_dict())


def run(
    config: ConfigDict, task: Task, workdir: Path, layout: Layout
) -> tuple[int, int | None, bool]:
    """Trains; returns the step reached, the newest saved step, and whether a signal stopped it.

    Collective, like everything it calls: all processes take the same steps in the same order.
    """
    num_steps, save_every = config.train.num_steps, config.train.save_every
    patience = config.evaluate.patience
    optimizer, step_function = make_step(config, task.loss)
    checkpoints = Checkpoints(
        workdir,
        keep=max(config.train.keep, config.evaluate.average_last),
        every=save_every,
        identity=task.identity,
        best_is=task.best_is,
    )
    state = first_state(task.init, optimizer, config.train.seed, checkpoints, layout)
    write_config(config, workdir)
    compiled_step = compile_step(step_function, layout, state)
    load = functools.partial(load_batch, task.batches, layout, config.train.accumulate)

    def is_due(step: int) -> bool:
        """Whether to validate after a step: every `evaluate.every` steps, and after the last."""
        every = config.evaluate.every
        return step == num_steps or bool(every and step and step % every == 0)

    def out_of_patience() -> bool:
        return is_out_of_patience(log.lines, patience, task.best_by, task.best_is)

    def newest_saved() -> int | None:
        """Waits for the save in progress, and returns the newest complete step."""
        checkpoints.finish()
        return checkpoints.newest()

    # A run may start at its end: finished before, or out of patience.
    step = first = int(state.step)
    describe(task, state, layout)
    log = logs.Log(workdir, step)
    hopeless = out_of_patience()
    if step < num_steps and not hopeless:
        state = rehearse(state, compiled_step, load, task, layout)
    elif not is_due(step) or log.has_validation(step):
        logging.info("already at step %d of %d: nothing left to train", step, num_steps)
    saved, stopping, scores = step > 0, False, None
    any_process = make_any_process(layout)  # (bool) -> whether it is true in any process
    meters = Meters(
        task,
        log,
        step=step,
        num_steps=num_steps,
        every=config.train.log_every,
        newest=newest_saved,
    )
    batches = prefetch(load, range(step, num_steps))  # a thread prefetches batches
    profiler = traced(first, config.train.profile, workdir / "profile")
    with (
        stop_signals() as signalled,
        profiler as trace,
        meters,
        contextlib.closing(batches),
    ):
        while not stopping:
            # Validate first, so that a resumed run makes up for a validation that it was killed in.
            if is_due(step) and not log.has_validation(step):
                with meters.paused():
                    scores = task.evaluate(gather_params(state.params, layout), signalled)
                    stopping = scores is None  # interrupted, in all processes alike
                    if scores:
                        score = scores[task.best_by]
                        best = checkpoints.save_best(step, to_save(state, layout).params, score)
                        meters.validation(step, scores, best)  # last: marks the validation as done
                        hopeless = out_of_patience()
            if stopping or step >= num_steps or hopeless:
                break
            with meters.waiting_for_data():
                batch, shape = next(batches)
            # Returns at once (asynchronous dispatch). A non-finite update is skipped inside.
            state, metrics = compiled_step(state, batch)
            step, saved = step + 1, False
            with meters.paused():
                trace(step, state)
            stopping = any_process(signalled())  # agreed among processes, two steps late
            saving = stopping or step == num_steps or step % save_every == 0
            # best/ is written only if there is a checkpoint to resume from, so save one before.
            saving = saving or (is_due(step) and checkpoints.is_empty)
            # Metrics are read two steps late, so that the device never waits for the host; before a
            # checkpoint or a validation they are all read, so that their lines are in the log.
            meters.add(step, metrics, shape=shape, lag=0 if saving or is_due(step) else 2)
            if saving:
                log.flush()  # first: a resumed run does not write these lines again
                save(checkpoints, step, state, layout)
                saved = True
        if not saved:  # the loop ended in a validation: interrupted, or out of patience
            log.flush()
            save(checkpoints, step, state, layout)
        newest = newest_saved()
        # Not where one process has failed: the others would not come to what closing waits for.
        checkpoints.close()
        log.close()
    return step, newest, signalled()


def make_step(config: ConfigDict, loss: Callable) -> tuple[optax.GradientTransformation, Callable]:
    """Returns the optimizer of a config, and its `train_step`: (state, batch, *, axis=None)."""
    options = config.optimizer.to_dict()
    schedule = optimizers.make_schedule(**options.pop("schedule"))
    optimizer = optimizers.make_optimizer(schedule, **options)
    return optimizer, functools.partial(
        train_step,
        loss=loss,
        optimizer=optimizer,
        schedule=schedule,
        seed=config.train.seed,
        accumulate=config.train.accumulate,
    )


def load_batch(
    batches: Batches, layout: Layout, accumulate: int, t: int
) -> tuple[dict, tuple[int, int]]:
    """Returns batch t sharded over the devices, and its shape (rows, length) before padding.

    Rows of weight 0 pad the batch to a multiple of data-parallel devices x `accumulate`: 195 rows
    become 200 on 8 devices with accumulate 1, and 208 with accumulate 2.
    """
    num_rows, length = batches.shape(t)
    num_rows = rows_for_devices(num_rows, layout.num_row_shards * accumulate)
    return shard_batch(functools.partial(batches.rows, t), num_rows, layout), (num_rows, length)


def rehearse(
    state: TrainState, compiled_step: Callable, load: Callable, task: Task, layout: Layout
) -> TrainState:
    """Compiles and runs a step in each batch shape, and validation in its largest shapes.

    UserError if something does not fit into the devices' memory: now, not hours later. Returns the
    state unchanged; the one passed in is donated.
    """
    batches = task.batches.first_of_each_length()
    logging.info("dry run: compiling, and running the largest shapes once")
    start = time.perf_counter()
    for t in batches:
        batch, (rows, length) = load(t)
        what = f"a step with {rows} rows of {length} positions"
        # With all weights 0 the loss is 0 / 0 = NaN, so the update is skipped.
        with memory.fits_in_memory(what, LOWER), jax.debug_nans(False):
            state, _ = compiled_step(state, jax.tree.map(lambda x: x * 0, batch))
            jax.block_until_ready(state)
        state = state._replace(step=state.step - 1, skipped=state.skipped - 1)
    middle = time.perf_counter()
    task.rehearse(gather_params(state.params, layout))
    logging.info(
        "dry run done: steps with rows of %s in %.1f s, validation in %.1f s",
        progress.quantity(len(batches), "length"),
        *(middle - start, time.perf_counter() - middle),
    )
    return state


def first_state(
    init: Callable[[jax.Array], Tree],
    optimizer: optax.GradientTransformation,
    seed: int,
    checkpoints: Checkpoints | None,
    layout: Layout,
) -> TrainState:
    """Returns the state of the newest undamaged checkpoint, or one with random params."""
    initialise = functools.partial(init_state, init, optimizer)
    shapes = jax.eval_shape(initialise, jax.random.key(seed))
    like = to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(like.params, _with_skipped(like))):
        number, params, rest = restored
        logging.info("resuming from step %d", number)
        step = jax.jit(lambda: jnp.int32(number), out_shardings=like.step.sharding)()
        state = TrainState(step, rest["skipped"], params, rest["opt_state"])
        return from_saved(state, layout)
    shardings = state_shardings(shapes, layout)
    return jax.jit(initialise, out_shardings=shardings)(jax.random.key(seed))


def save(checkpoints: Checkpoints, step: int, state: TrainState, layout: Layout) -> None:
    """Starts saving a state; its arrays may be donated on return."""
    saved_state = to_save(state, layout)
    checkpoints.save(step, saved_state.params, _with_skipped(saved_state))


def _with_skipped(state: TrainState) -> Tree:
    """Returns what is saved beside the params: the optimizer state and the count of skips."""
    return {"opt_state": state.opt_state, "skipped": state.skipped}
