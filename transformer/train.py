"""The story, top to bottom: one update after the other, saved, validated, logged."""

import collections
import contextlib
import functools
import logging
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from transformer import (
    batches,
    checkpoint,
    evaluate,
    metrics,
    parallel,
    performance,
    prepare,
    processes,
    trained,
    update,
    watch,
)
from transformer.translator import Translator

Tree = Any


def train(config: ConfigDict, workdir: Path) -> None:
    """--mode=train: trains, or goes on where the workdir stands, then scores the test split.

    Told to stop (SIGTERM, SIGUSR1, Ctrl-C), it saves after the step in flight and exits with 143.
    """
    layout = parallel.spread(config.parallel.strategy, config.parallel.mesh)
    prepare.check(config)
    with processes.alone_in(workdir):
        prepared = prepare.prepare(config, workdir)
        step, saved, stopped = run(prepared, workdir, layout)
        if saved != step:
            logging.error("step %d is not saved, the newest is %s", step, saved)
            sys.exit(1)
        if any(processes.everyones(stopped)):
            logging.info("stopped after step %d was saved; the same command goes on there", step)
            sys.exit(128 + signal.SIGTERM)
        evaluate.evaluate(prepared.config, workdir)


def run(
    prepared: prepare.Prepared, workdir: Path, layout: parallel.Layout
) -> tuple[int, int | None, bool]:
    """Trains: the step it has come to, the newest that is saved, whether it was told to stop."""
    config, vocabulary, tokens = prepared
    options = config.train
    model = trained.build_model(config, vocabulary)
    translator = Translator(model, vocabulary, **config.decode)
    examiner = evaluate.Examiner(config, "validation", translator)
    training = prepare.training_batches(config, tokens)

    adam, train_step = update.from_config(config, model)
    checkpoints = checkpoint.Checkpoints(
        workdir,
        keep=max(options.keep, config.evaluate.average_last),
        every=options.save_every,
        vocabulary=vocabulary.fingerprint,
    )
    state = first_state(model, adam, options.seed, checkpoints, layout)
    compiled = parallel.compile_step(train_step, layout, state)

    def load(t: int) -> tuple[dict, int, int]:
        """Batch t, the rows it has with those that were added, and their length."""
        num_rows, length = training.shape(t)
        num_rows = parallel.padded_rows(num_rows, layout, options.accumulate)
        rows = functools.partial(training.rows, t)
        return parallel.place(rows, num_rows, layout), num_rows, length

    def empty(t: int) -> dict:
        """A batch of the shape of batch t, without a token."""
        rows = lambda start, stop: training.rows(t, num_rows + start, num_rows + stop)
        num_rows = parallel.padded_rows(training.shape(t)[0], layout, options.accumulate)
        return parallel.place(rows, num_rows, layout)

    def computing() -> bool:
        return bool(late) and not late[-1][1]["loss"].is_ready()

    def validate() -> None:
        with progress.paused():
            examine(step, state, layout, examiner, checkpoints, log, config.evaluate.samples)

    def save() -> None:
        log.flush()
        whole = parallel.to_save(state, layout)
        checkpoints.save(step, whole.parameters, whole.optimizer_state)

    def newest() -> int | None:
        checkpoints.finish()
        return checkpoints.newest()

    first = step = int(state.step)
    describe(config, state, training, layout)
    log = metrics.Log(workdir, step)
    progress = metrics.Progress(step, options.num_steps)
    watching = watch.Watch(newest)
    late = collections.deque()  # sums that the device may still be computing
    if step and due(step, config) and not log.validated(step):
        validate()  # the run was stopped between this checkpoint and its validation
    finished = step >= options.num_steps or metrics.out_of_patience(
        log.lines, config.evaluate.patience
    )
    if finished:
        logging.info("already at step %d: nothing is left to train", step)
    lengths = [] if finished else training.first_of_each_length()
    if len(lengths) > 1:
        logging.info("compiling for %d lengths of rows, the longest first", len(lengths))
        for t in lengths:  # no token, no numbers: the update is left out
            with within_memory(*training.shape(t)):
                state = jax.block_until_ready(compiled(state, empty(t))[0])
            state = state._replace(step=state.step - 1)
    agreed = parallel.agreement(layout)
    tracing = performance.traced(first, options.profile, workdir / "profile")
    with processes.stop_signals() as stop, tracing as trace:
        steps = range(step, step if finished else options.num_steps)
        for batch, *shape in progress.waiting(batches.ahead(load, steps), computing):
            with within_memory(*shape) if step == first else contextlib.nullcontext():
                state, sums = compiled(state, batch)
                if step == first:
                    jax.block_until_ready(sums)
            step += 1
            least_seconds = performance.least_seconds(model, *shape)
            late.append((step, sums, math.prod(shape), least_seconds))
            with progress.paused():
                trace(step, state)
            last, stopping = step == options.num_steps, agreed(stop.is_set())
            saves = last or stopping or step % options.save_every == 0
            # Metrics are fetched two steps late: the device always has the next step waiting.
            while len(late) > (0 if saves or due(step, config) else 2):
                record(*late.popleft(), log, progress, watching, options.log_every)
            if saves:
                save()
            if stopping:
                break
            if due(step, config):
                validate()
                finished = last or metrics.out_of_patience(log.lines, config.evaluate.patience)
                if finished and not saves:
                    save()
                if finished:
                    break
        progress.close()
        saved = newest()
        checkpoints.close()
        log.close()
    return step, saved, stop.is_set()


@contextlib.contextmanager
def within_memory(rows: int, length: int) -> Iterator[None]:
    """Says what to lower if a step with a batch of that shape is too large for the devices."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise ValueError(
            f"a step with {rows} rows of {length} positions does not fit into the devices' memory: "
            "lower config.data.batch_tokens, raise config.train.accumulate, or set "
            "config.model.remat=True"
        ) from error


def first_state(
    model: nn.Module,
    adam: update.Adam,
    seed: int,
    checkpoints: checkpoint.Checkpoints | None,
    layout: parallel.Layout,
) -> update.TrainState:
    """The state to start from: the newest checkpoint's, else one of random parameters."""
    initialise = functools.partial(update.random_state, model, adam)
    shapes = jax.eval_shape(initialise, jax.random.key(seed))
    like = parallel.to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(like.parameters, like.optimizer_state)):
        step, *trees = restored
        logging.info("going on from step %d", step)
        number = jax.jit(lambda: jnp.int32(step), out_shardings=like.step.sharding)()
        return parallel.from_saved(update.TrainState(number, *trees), layout)
    shardings = parallel.state_shardings(shapes, layout)
    return jax.jit(initialise, out_shardings=shardings)(jax.random.key(seed))


def due(step: int, config: ConfigDict) -> bool:
    """Whether the run is validated after this step: every so often, and at its end."""
    every = config.evaluate.every
    return step == config.train.num_steps or bool(every and step % every == 0)


def record(
    step: int,
    sums: dict,
    positions: int,
    least_seconds: float,
    log: metrics.Log,
    progress: metrics.Progress,
    watching: watch.Watch,
    every: int,
) -> None:
    """Takes note of a finished step, and logs every so many, but those without numbers."""
    sums = {name: float(value) for name, value in sums.items()}
    progress.advance()
    if watching.sees(step, sums) and step % every == 0:
        times = progress.lap()
        values = {
            **evaluate.per_token(sums),
            "learning_rate": sums["learning_rate"],
            "gradient_norm": sums["gradient_norm"],
            "left_out": int(sums["left_out"]),
            "padding": 1 - sums["tokens"] / positions,
            "tokens_per_second": sums["tokens"] / times["step_seconds"],
            **times,
        }
        if least_seconds:
            values["share_of_peak"] = least_seconds / times["step_seconds"]
        log.write("train", step, values)
        progress.show(values)


def examine(
    step: int,
    state: update.TrainState,
    layout: parallel.Layout,
    examiner: evaluate.Examiner,
    checkpoints: checkpoint.Checkpoints,
    log: metrics.Log,
    samples: int,
) -> None:
    """Loss, BLEU and sample translations of the validation split; keeps the best parameters."""
    scores, translations = examiner.examine(parallel.gathered(state.parameters, layout))
    sample = examiner.sample(translations, samples)
    parameters = parallel.to_save(state, layout).parameters
    best = checkpoints.save_best(step, parameters, scores["bleu"])
    log.write("validation", step, {**scores, "samples": sample})  # last: it says that all is done
    logging.info(
        "step %d: validation BLEU %.2f%s, chrF %.2f, loss %.4f, perplexity %.3f\n\n%s",
        *(step, scores["bleu"], " (best so far)" if best else "", scores["chrf"]),
        *(scores["loss"], scores["perplexity"], sample),
    )


def describe(
    config: ConfigDict,
    state: update.TrainState,
    training: batches.Batches,
    layout: parallel.Layout,
) -> None:
    """Says what is about to run."""
    told = [f"{n}={v}" for n, v in os.environ.items() if n.startswith(("MALLOC_", "GLIBC_"))]
    logging.info("the allocator is told: %s", " ".join(told) or "nothing")
    source, target = batches.filled(training)
    count = f"{sum(x.size for x in jax.tree.leaves(state.parameters)):,}"
    logging.info(
        "%s parameters in %s, the state %.1f MB a device; %d process(es), %d device(s) (%s), %s, "
        "(data, fsdp, tensor) = %s",
        *(count, config.model.dtype, parallel.bytes_per_device(state) / 1e6),
        *(jax.process_count(), layout.mesh.size, jax.devices()[0].device_kind),
        *(layout.strategy, tuple(layout.mesh.shape.values())),
    )
    logging.info(
        "%d batches an epoch of %d target positions, %.1f %% of them and %.1f %% of the source's "
        "filled",
        *(len(training), config.data.batch_tokens, 100 * target, 100 * source),
    )
