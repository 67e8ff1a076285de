"""The story, top to bottom: one update after the other, saved, validated, logged."""

import collections
import functools
import logging
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from transformer import (
    batches,
    capacity,
    checkpoint,
    evaluate,
    metrics,
    parallel,
    performance,
    prepare,
    processes,
    results,
    store,
    trained,
    update,
    watch,
)
from transformer.translator import Translator

Tree = Any

# What makes a step smaller.
LOWER = (
    "lower config.data.batch_tokens, raise config.train.accumulate, or set config.model.remat=True"
)


def train(config: ConfigDict, workdir: Path) -> None:
    """--mode=train: trains, or goes on where the workdir stands, then scores the test split.

    Signalled to stop (SIGTERM, SIGHUP, SIGUSR1, Ctrl-C), it saves after the step in flight and
    exits with 143. Before the first step a signal ends the process: there is nothing to save.
    """
    layout = parallel.spread(config.parallel.strategy, config.parallel.mesh)
    store.check_path(workdir)
    prepare.check(config)
    num_steps, warmup_steps = config.train.num_steps, config.optimizer.warmup_steps
    if num_steps < warmup_steps and processes.is_first():
        logging.warning(
            "config.train.num_steps=%d ends within the warm-up, config.optimizer.warmup_steps=%d: "
            "the learning rate gets to %.1f %% of its peak only; warmup_steps=%d would suit",
            *(num_steps, warmup_steps, 100 * num_steps / warmup_steps, -(-num_steps // 3)),
        )
    with processes.alone_in(workdir):
        prepared = prepare.build(config, workdir)
        step, saved, stopped = run(prepared, workdir, layout)
        if saved != step:
            logging.error("step %d is not saved, the newest is %s", step, saved)
            sys.exit(1)
        if any(processes.everyones(stopped)):
            logging.info("stopped after step %d was saved; the same command goes on there", step)
            sys.exit(128 + signal.SIGTERM)
        result = evaluate.score_split(prepared.config, workdir, once=True)
        results.log_final(workdir, step, result)


def run(
    prepared: prepare.Prepared, workdir: Path, layout: parallel.Layout
) -> tuple[int, int | None, bool]:
    """Trains: the step it has come to, the newest that is saved, whether it was
    signalled to stop."""
    config, vocabulary, tokens = prepared
    options, samples = config.train, config.evaluate.samples
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
    prepare.write_config(config, workdir)
    compiled = parallel.compile_step(train_step, layout, state)
    load = functools.partial(load_batch, training, layout, options.accumulate)

    def computing() -> bool:
        return bool(late) and not late[-1][1]["loss"].is_ready()

    def validate(stopping: Callable[[], bool]) -> bool:
        with progress.paused():
            parameters = parallel.gathered(state.parameters, layout)
            found = examiner.examine(parameters, stopping)
            if found:
                scores, translations = found
                whole = parallel.to_save(state, layout).parameters
                best = checkpoints.save_best(step, whole, scores["bleu"])
                # Last, for it says that all is done.
                note(step, scores, examiner.sample(translations, samples), best, log)
        return bool(found)

    def save() -> None:
        log.flush()
        whole = parallel.to_save(state, layout)
        checkpoints.save(step, whole.parameters, whole.optimizer_state)

    def out_of_patience() -> bool:
        return metrics.out_of_patience(log.lines, config.evaluate.patience)

    def newest() -> int | None:
        checkpoints.finish()
        return checkpoints.newest()

    first = step = int(state.step)
    describe(config, state, training, layout)
    log = metrics.Log(workdir, step)
    finished = step >= options.num_steps or out_of_patience()
    if not finished:
        state = rehearse(state, compiled, load, training, examiner, layout)
    progress = metrics.Progress(step, options.num_steps)
    watching = watch.Watch(newest)
    late = collections.deque()  # sums that the device may still be computing
    agreed = parallel.agreement(layout)
    tracing = performance.traced(first, options.profile, workdir / "profile")
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
            least = performance.least_seconds(model, rows, length)
            late.append((step, {**sums, "positions": rows * length, "least_seconds": least}))
            with progress.paused():
                trace(step, state)
            last, stopping = step == options.num_steps, agreed(signalled())
            saves = last or stopping or step % options.save_every == 0
            # Metrics are fetched two steps late: the device always has the next step waiting.
            while len(late) > (0 if saves or due(step, config) else 2):
                record(*late.popleft(), log, progress, watching, options.log_every)
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
    training: batches.Batches, layout: parallel.Layout, accumulate: int, t: int
) -> tuple[dict, int, int]:
    """Batch t as the step wants it, the rows it has with those that were added, and their
    length."""
    num_rows, length = training.shape(t)
    num_rows = parallel.padded_rows(num_rows, layout.row_parts * accumulate)
    rows = functools.partial(training.rows, t)
    return parallel.place(rows, num_rows, layout), num_rows, length


def rehearse(
    state: update.TrainState,
    compiled: Callable,
    load: Callable[[int], tuple[dict, int, int]],
    training: batches.Batches,
    examiner: evaluate.Examiner,
    layout: parallel.Layout,
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
        with capacity.holds(what, LOWER), jax.debug_nans(False):
            state, _ = compiled(state, jax.tree.map(lambda x: x * 0, batch))
            jax.block_until_ready(state)
        state = state._replace(step=state.step - 1)
    middle = time.perf_counter()
    examiner.rehearse(parallel.gathered(state.parameters, layout))
    logging.info(
        "tried: steps with rows of %s in %.1f s, validation in %.1f s",
        metrics.counted(len(lengths), "length"),
        *(middle - start, time.perf_counter() - middle),
    )
    return state


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
            "padding": 1 - sums["tokens"] / sums["positions"],
            "tokens_per_second": sums["tokens"] / times["step_seconds"],
            **times,
        }
        if sums["least_seconds"]:
            values["share_of_peak"] = sums["least_seconds"] / times["step_seconds"]
        log.write("train", step, values)
        progress.show(values)


def note(step: int, scores: dict, sample: str, best: bool, log: metrics.Log) -> None:
    """Takes note of a validation."""
    log.write("validation", step, {**scores, "samples": sample})
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
    source, target = batches.filled(training)
    params = metrics.counted(sum(x.size for x in jax.tree.leaves(state.parameters)), "parameter")
    logging.info(
        "%s in %s, the state %.1f MB a device; %s, %s (%s), %s, (data, fsdp, tensor) = %s",
        *(params, config.model.dtype, parallel.bytes_per_device(state) / 1e6),
        metrics.counted(jax.process_count(), "process", "processes"),
        metrics.counted(layout.mesh.size, "device"),
        *(jax.devices()[0].device_kind, layout.strategy, tuple(layout.mesh.shape.values())),
    )
    logging.info(
        "%d batches an epoch of %d target positions, %.1f %% of them and %.1f %% of the source's "
        "filled",
        *(len(training), config.data.batch_tokens, 100 * target, 100 * source),
    )
