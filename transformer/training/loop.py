"""The story, top to bottom: one update after the other, saved, validated, logged."""

import collections
import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from transformer.checkpoints import manager
from transformer.checkpoints.workdir import write_config
from transformer.data import batches
from transformer.decoding.translator import Translator
from transformer.distributed import inference, processes
from transformer.distributed.layout import Layout, from_saved, state_shardings, to_restore, to_save
from transformer.distributed.step import agreement, compile_step, padded_rows, place
from transformer.monitoring import anomalies, memory, progress
from transformer.monitoring import log as logs
from transformer.monitoring.log import Log
from transformer.monitoring.progress import Progress
from transformer.monitoring.trace import traced
from transformer.tasks import build, translation, translation_evaluator
from transformer.training import meters, update

Tree = Any

# What makes a step smaller.
LOWER = (
    "lower config.data.batch_tokens, raise config.train.accumulate, or set config.model.remat=True"
)


def run(prepared: build.Prepared, workdir: Path, layout: Layout) -> tuple[int, int | None, bool]:
    """Trains: the step it has come to, the newest that is saved, whether it was
    signalled to stop."""
    config, vocabulary, tokens = prepared
    options, samples = config.train, config.evaluate.samples
    model = translation.build_model(config, vocabulary)
    translator = Translator(model, vocabulary, **config.decode)
    examiner = translation_evaluator.Examiner(config, "validation", translator)
    training = build.training_batches(config, tokens)

    adam, train_step = update.from_config(config, model)
    checkpoints = manager.Checkpoints(
        workdir,
        keep=max(options.keep, config.evaluate.average_last),
        every=options.save_every,
        vocabulary=vocabulary.fingerprint,
    )
    state = first_state(model, adam, options.seed, checkpoints, layout)
    write_config(config, workdir)
    compiled = compile_step(train_step, layout, state)
    load = functools.partial(load_batch, training, layout, options.accumulate)

    def computing() -> bool:
        return bool(late) and not late[-1][1]["loss"].is_ready()

    def validate(stopping: Callable[[], bool]) -> bool:
        with progress.paused():
            parameters = inference.gathered(state.parameters, layout)
            found = examiner.examine(parameters, stopping)
            if found:
                scores, translations = found
                whole = to_save(state, layout).parameters
                best = checkpoints.save_best(step, whole, scores["bleu"])
                # Last, for it says that all is done.
                meters.note(step, scores, examiner.sample(translations, samples), best, log)
        return bool(found)

    def save() -> None:
        log.flush()
        whole = to_save(state, layout)
        checkpoints.save(step, whole.parameters, whole.optimizer_state)

    def out_of_patience() -> bool:
        return logs.out_of_patience(log.lines, config.evaluate.patience)

    def newest() -> int | None:
        checkpoints.finish()
        return checkpoints.newest()

    first = step = int(state.step)
    meters.describe(config, state, training, layout)
    log = Log(workdir, step)
    finished = step >= options.num_steps or out_of_patience()
    if not finished:
        state = rehearse(state, compiled, load, training, examiner, layout)
    progress = Progress(step, options.num_steps)
    watching = anomalies.Watch(newest)
    late = collections.deque()  # sums that the device may still be computing
    agreed = agreement(layout)
    tracing = traced(first, options.profile, workdir / "profile")
    with processes.stop_signals() as signalled, tracing as trace:
        # Whether the run was stopped between this checkpoint and its validation, and now again.
        left = step > 0 and due(step, config) and not log.validated(step)
        stopping = left and not validate(signalled)
        finished = finished or out_of_patience()
        if finished and not stopping:
            logging.info("already at step %d of %d: nothing is left", step, options.num_steps)
        steps = range(step, step if finished or stopping else options.num_steps)
        for batch, rows, length in progress.waiting(batches.ahead(load, steps), computing):
            state, sums = compiled(state, batch)
            step += 1
            least = meters.least_seconds(model, rows, length)
            late.append((step, {**sums, "positions": rows * length, "least_seconds": least}))
            with progress.paused():
                trace(step, state)
            last, stopping = step == options.num_steps, agreed(signalled())
            saves = last or stopping or step % options.save_every == 0
            # Metrics are fetched two steps late: the device always has the next step waiting.
            while len(late) > (0 if saves or due(step, config) else 2):
                meters.record(*late.popleft(), log, progress, watching, options.log_every)
            # The best is kept only where there is a step to go on from.
            saves = saves or (due(step, config) and checkpoints.is_empty)
            if saves:
                save()
            if stopping:
                break
            if due(step, config):
                stopping = not validate(signalled)
                finished = last or out_of_patience()
                if (finished or stopping) and not saves:
                    save()
                if finished or stopping:
                    break
        progress.close()
        saved = newest()
        checkpoints.close()
        log.close()
    return step, saved, signalled()


def load_batch(
    training: batches.Batches, layout: Layout, accumulate: int, t: int
) -> tuple[dict, int, int]:
    """Batch t as the step wants it, the rows it has with those that were added, and their
    length."""
    num_rows, length = training.shape(t)
    num_rows = padded_rows(num_rows, layout.row_parts * accumulate)
    rows = functools.partial(training.rows, t)
    return place(rows, num_rows, layout), num_rows, length


def rehearse(
    state: update.TrainState,
    compiled: Callable,
    load: Callable[[int], tuple[dict, int, int]],
    training: batches.Batches,
    examiner: translation_evaluator.Examiner,
    layout: Layout,
) -> update.TrainState:
    """The same state, after a step in each shape there is and validation in its largest: what does
    not fit into the devices' memory is said now."""
    lengths = training.first_of_each_length()
    logging.info("compiling, and trying the largest shapes")
    start = time.perf_counter()
    for t in lengths:
        batch, rows, length = load(t)
        what = f"a step with {rows} rows of {length} positions"
        # No token, no numbers: the update is left out.
        with memory.holds(what, LOWER), jax.debug_nans(False):
            state, _ = compiled(state, jax.tree.map(lambda x: x * 0, batch))
            jax.block_until_ready(state)
        state = state._replace(step=state.step - 1)
    middle = time.perf_counter()
    examiner.rehearse(inference.gathered(state.parameters, layout))
    logging.info(
        "tried: steps with rows of %s in %.1f s, validation in %.1f s",
        progress.counted(len(lengths), "length"),
        *(middle - start, time.perf_counter() - middle),
    )
    return state


def first_state(
    model: nn.Module,
    adam: update.Adam,
    seed: int,
    checkpoints: manager.Checkpoints | None,
    layout: Layout,
) -> update.TrainState:
    """The state to start from: the newest checkpoint's, else one of random parameters."""
    initialise = functools.partial(update.random_state, model, adam)
    shapes = jax.eval_shape(initialise, jax.random.key(seed))
    like = to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(like.parameters, like.optimizer_state)):
        step, *trees = restored
        logging.info("going on from step %d", step)
        number = jax.jit(lambda: jnp.int32(step), out_shardings=like.step.sharding)()
        return from_saved(update.TrainState(number, *trees), layout)
    shardings = state_shardings(shapes, layout)
    return jax.jit(initialise, out_shardings=shardings)(jax.random.key(seed))


def due(step: int, config: ConfigDict) -> bool:
    """Whether the run is validated after this step: every so often, and at its end."""
    every = config.evaluate.every
    return step == config.train.num_steps or bool(every and step % every == 0)
