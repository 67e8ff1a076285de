"""The story, top to bottom: what one update is, and the loop around it."""

import collections
import contextlib
import functools
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import optax

from transformer import (
    batches,
    checkpoint,
    evaluate,
    layers,
    loss,
    metrics,
    optimizer,
    parallel,
    performance,
    prepare,
    trained,
)
from transformer.translator import Translator

Tree = Any


class TrainState(NamedTuple):
    """What training changes. It holds no random key: that comes from the seed and the step."""

    step: jax.Array  # updates made so far
    parameters: Tree
    optimizer_state: Tree


def train_step(
    state: TrainState,
    batch: dict,
    *,
    model: nn.Module,
    adam: optax.GradientTransformation,
    learning_rate: Callable[[jax.Array], jax.Array],
    seed: int,
    accumulate: int,
    loss_blocks: int,
    smoothing: dict,
    axis: str | None = None,
) -> tuple[TrainState, dict]:
    """One update: the new state, and sums over the batch's tokens.

    With `axis`, `batch` is this device's part and sums go over that mapped axis; without it,
    `batch` is the global one. The batch goes through the model in `accumulate` parts; loss and
    gradient are sums over tokens, divided once by the number of tokens in the global batch.
    """
    rng = jax.random.fold_in(jax.random.key(seed), state.step)
    rng = parallel.random_per_device(rng, axis)

    def summed_loss(parameters: Tree, part: dict, rng: jax.Array) -> tuple[jax.Array, dict]:
        options = {"train": True, "rngs": {"dropout": rng}, "method": "factors"}
        factors = model.apply({"params": parameters}, **part["inputs"], **options)
        tokens = (part["targets"], part["weights"])
        sums = loss.in_blocks(layers.logits, *factors, *tokens, blocks=loss_blocks, **smoothing)
        return sums["loss"], sums

    gradient = jax.grad(summed_loss, has_aux=True)

    def add(total: Tree, numbered_part: tuple) -> tuple[Tree, None]:
        number, part = numbered_part
        new = gradient(state.parameters, part, jax.random.fold_in(rng, number))
        return jax.tree.map(jnp.add, total, new), None

    parts = parallel.micro_batches(batch, accumulate)
    if accumulate == 1:
        gradients, sums = gradient(state.parameters, jax.tree.map(lambda x: x[0], parts), rng)
    else:
        zeros = jax.tree.map(jnp.zeros_like, (state.parameters, dict.fromkeys(loss.SUMS, 0.0)))
        numbers = jnp.arange(accumulate)
        (gradients, sums), _ = jax.lax.scan(add, zeros, (numbers, parts))
    gradients, sums = parallel.sum_over_devices((gradients, sums), axis)
    gradients = jax.tree.map(lambda g: g / sums["tokens"], gradients)

    updates, optimizer_state = adam.update(gradients, state.optimizer_state, state.parameters)
    parameters = optax.apply_updates(state.parameters, updates)
    step = state.step + 1
    sums |= {"gradient_norm": optax.tree.norm(gradients), "learning_rate": learning_rate(step)}
    return TrainState(step, parameters, optimizer_state), sums


def train(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=train: trains, or goes on where the workdir stands, then scores the test split."""
    options, mesh = config.train, parallel.data_mesh()
    config, vocabulary, tokens = prepare.prepare(config, workdir)
    model = trained.build_model(config, vocabulary)
    translator = Translator(model, vocabulary, **config.decode)
    examiner = evaluate.Examiner(config, "validation", translator)
    training = prepare.training_batches(config, tokens)

    learning_rate = functools.partial(
        optimizer.inverse_square_root,
        d_model=config.model.d_model,
        warmup_steps=config.optimizer.warmup_steps,
        factor=config.optimizer.factor,
    )
    adam = optimizer.adam(learning_rate, **config.optimizer.adam)
    checkpoints = checkpoint.Checkpoints(
        workdir,
        keep=max(options.keep, config.evaluate.average_last),
        every=options.save_every,
        vocabulary=vocabulary.fingerprint,
    )
    state = first_state(model, adam, options.seed, checkpoints, parallel.replicated(mesh))
    update = parallel.compile_step(
        functools.partial(
            train_step,
            model=model,
            adam=adam,
            learning_rate=learning_rate,
            seed=options.seed,
            accumulate=options.accumulate,
            loss_blocks=options.loss_blocks,
            smoothing=config.loss.to_dict(),
        ),
        config.parallel.strategy,
        mesh,
    )

    def load(t: int) -> dict:
        rows = parallel.padded_rows(training.num_rows(t), mesh, options.accumulate)
        return training.rows(t, *parallel.host_rows(rows))

    def computing() -> bool:
        return bool(late) and not late[-1][1]["loss"].is_ready()

    def validate() -> None:
        with progress.paused():
            parameters = state.parameters
            examine(step, parameters, examiner, checkpoints, log, config.evaluate.samples)

    first = step = int(state.step)
    describe(config, state.parameters, training, mesh)
    log = metrics.Log(workdir, step)
    progress = metrics.Progress(step, options.num_steps)
    late = collections.deque()  # sums that the device may still be computing
    if step and due(step, config) and not log.validated(step):
        validate()  # the run was stopped between this checkpoint and its validation
    finished = step >= options.num_steps or metrics.out_of_patience(
        log.lines, config.evaluate.patience
    )

    if finished:
        logging.info("already at step %d: nothing is left to train", step)
    tracing = performance.traced(first, options.profile, workdir / "profile")
    with stop_signals() as stop, tracing as trace:
        steps = range(step, step if finished else options.num_steps)
        for batch in progress.waiting(batches.ahead(load, steps), computing):
            state, sums = update(state, parallel.place(batch, config.parallel.strategy, mesh))
            step += 1
            positions = batch["weights"].size * jax.process_count()
            late.append((step, sums, positions, performance.least_seconds(model, batch)))
            with progress.paused():
                trace(step, state)
            last, stopping = step == options.num_steps, stop.is_set()
            saves = last or stopping or step % options.save_every == 0
            # Metrics are fetched two steps late: the device always has the next step waiting.
            while len(late) > (0 if saves or due(step, config) else 2):
                record(*late.popleft(), log, progress, options.log_every)
            if saves:
                checkpoints.save(step, state.parameters, state.optimizer_state)
            if stopping:
                break
            if due(step, config):
                validate()
                finished = last or metrics.out_of_patience(log.lines, config.evaluate.patience)
                if finished and not saves:
                    checkpoints.save(step, state.parameters, state.optimizer_state)
                if finished:
                    break
    progress.close()
    log.close()
    checkpoints.close()
    if stop.is_set():
        logging.info("stopped after step %d was saved; the same command goes on from there", step)
        sys.exit(128 + signal.SIGTERM)
    evaluate.evaluate(config, workdir)


def first_state(
    model: nn.Module,
    adam: optax.GradientTransformation,
    seed: int,
    checkpoints: checkpoint.Checkpoints | None,
    sharding: parallel.Sharding,
) -> TrainState:
    """The state to start from: the newest checkpoint's, else one of random parameters."""
    parameters = trained.abstract_parameters(model, sharding)
    optimizer_state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        jax.eval_shape(adam.init, parameters),
    )
    if checkpoints and (restored := checkpoints.restore(parameters, optimizer_state)):
        step, parameters, optimizer_state = restored
        logging.info("going on from step %d", step)
        return TrainState(jax.device_put(jnp.int32(step), sharding), parameters, optimizer_state)

    def initialise(rng: jax.Array) -> TrainState:
        parameters = trained.initial_parameters(model, rng)
        return TrainState(jnp.int32(0), parameters, adam.init(parameters))

    return jax.jit(initialise, out_shardings=sharding)(jax.random.key(seed))


def due(step: int, config: ml_collections.ConfigDict) -> bool:
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
    every: int,
) -> None:
    """Takes note of a finished step, and logs every so many."""
    sums = {name: float(value) for name, value in sums.items()}
    if not math.isfinite(sums["loss"] + sums["gradient_norm"]):
        raise FloatingPointError(
            f"step {step}: loss {sums['loss']}, gradient norm {sums['gradient_norm']} at learning "
            f"rate {sums['learning_rate']:.3g}; the last checkpoint was saved before it. Lower "
            "config.optimizer.factor, or set config.optimizer.adam.clip_norm"
        )
    progress.advance()
    if step % every == 0:
        times = progress.lap()
        values = {
            **evaluate.per_token(sums),
            "learning_rate": sums["learning_rate"],
            "gradient_norm": sums["gradient_norm"],
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
    parameters: Tree,
    examiner: evaluate.Examiner,
    checkpoints: checkpoint.Checkpoints,
    log: metrics.Log,
    samples: int,
) -> None:
    """Loss, BLEU and sample translations of the validation split; keeps the best parameters."""
    scores, translations = examiner.examine(parallel.on_one_device(parameters))
    sample = examiner.sample(translations, samples)
    log.write("validation", step, {**scores, "samples": sample})
    best = checkpoints.save_best(step, parameters, scores["bleu"])
    logging.info(
        "step %d: validation BLEU %.2f%s, chrF %.2f, loss %.4f, perplexity %.3f\n\n%s",
        *(step, scores["bleu"], " (best so far)" if best else "", scores["chrf"]),
        *(scores["loss"], scores["perplexity"], sample),
    )


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl-C: finish the step, save, stop. A second Ctrl-C stops at once."""
    stop = threading.Event()

    def request(number: int, _: object) -> None:
        stop.set()
        logging.info("%s: saving after this step", signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {n: signal.signal(n, request) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(
    config: ml_collections.ConfigDict,
    parameters: Tree,
    training: batches.Batches,
    mesh: parallel.Mesh,
) -> None:
    """Says what is about to run."""
    told = [f"{n}={v}" for n, v in os.environ.items() if n.startswith(("MALLOC_", "GLIBC_"))]
    logging.info("the allocator is told: %s", " ".join(told) or "nothing")
    source, target = batches.filled(training)
    logging.info(
        "%s parameters; %d device(s) (%s), %s, %s; %d batches an epoch of %d target positions, "
        "%.1f %% of them and %.1f %% of the source's filled",
        f"{sum(x.size for x in jax.tree.leaves(parameters)):,}",
        *(mesh.size, jax.devices()[0].device_kind, config.parallel.strategy, config.model.dtype),
        *(len(training), config.data.batch_tokens, 100 * target, 100 * source),
    )
