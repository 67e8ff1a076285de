"""The story, top to bottom: what one update is, and the loop around it."""

import collections
import functools
import logging
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

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
    processes,
    trained,
)
from transformer.translator import Translator

Tree = Any
Adam = optax.GradientTransformation


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
    adam: Adam,
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


def update_of(config: ConfigDict, model: nn.Module) -> tuple[Adam, Callable]:
    """A config's Adam, and its `train_step` of a state, a batch and an axis."""
    learning_rate = functools.partial(
        optimizer.inverse_square_root,
        d_model=config.model.d_model,
        warmup_steps=config.optimizer.warmup_steps,
        factor=config.optimizer.factor,
    )
    adam = optimizer.adam(learning_rate, **config.optimizer.adam)
    return adam, functools.partial(
        train_step,
        model=model,
        adam=adam,
        learning_rate=learning_rate,
        seed=config.train.seed,
        accumulate=config.train.accumulate,
        loss_blocks=config.train.loss_blocks,
        smoothing=config.loss.to_dict(),
    )


def train(config: ConfigDict, workdir: Path) -> None:
    """--mode=train: trains, or goes on where the workdir stands, then scores the test split."""
    options = config.train
    layout = parallel.spread(config.parallel.strategy, config.parallel.mesh)
    config, vocabulary, tokens = prepare.prepare(config, workdir)
    model = trained.build_model(config, vocabulary)
    translator = Translator(model, vocabulary, **config.decode)
    examiner = evaluate.Examiner(config, "validation", translator)
    training = prepare.training_batches(config, tokens)

    adam, update = update_of(config, model)
    checkpoints = checkpoint.Checkpoints(
        workdir,
        keep=max(options.keep, config.evaluate.average_last),
        every=options.save_every,
        vocabulary=vocabulary.fingerprint,
    )
    state = first_state(model, adam, options.seed, checkpoints, layout)
    update = parallel.compile_step(update, layout, state)

    def load(t: int) -> tuple[dict, int, int]:
        """Batch t, the rows it has with those that were added, and their length."""
        num_rows, length = training.shape(t)
        num_rows = parallel.padded_rows(num_rows, layout, options.accumulate)
        rows = functools.partial(training.rows, t)
        return parallel.place(rows, num_rows, layout), num_rows, length

    def computing() -> bool:
        return bool(late) and not late[-1][1]["loss"].is_ready()

    def validate() -> None:
        with progress.paused():
            examine(step, state, layout, examiner, checkpoints, log, config.evaluate.samples)

    def save() -> None:
        log.flush()
        whole = parallel.to_save(state, layout)
        checkpoints.save(step, whole.parameters, whole.optimizer_state)

    first = step = int(state.step)
    describe(config, state, training, layout)
    log = metrics.Log(workdir, step, writes=processes.is_first())
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
    agreed = parallel.agreement(layout)
    with processes.stop_signals() as stop, tracing as trace:
        steps = range(step, step if finished else options.num_steps)
        for batch, *shape in progress.waiting(batches.ahead(load, steps), computing):
            state, sums = update(state, batch)
            step += 1
            least_seconds = performance.least_seconds(model, *shape)
            late.append((step, sums, math.prod(shape), least_seconds))
            with progress.paused():
                trace(step, state)
            last, stopping = step == options.num_steps, agreed(stop.is_set())
            saves = last or stopping or step % options.save_every == 0
            # Metrics are fetched two steps late: the device always has the next step waiting.
            while len(late) > (0 if saves or due(step, config) else 2):
                record(*late.popleft(), log, progress, options.log_every)
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
    log.close()
    checkpoints.close()
    if any(processes.exchange([stop.is_set()], jax.process_count())):
        logging.info("stopped after step %d was saved; the same command goes on from there", step)
        sys.exit(128 + signal.SIGTERM)
    evaluate.evaluate(config, workdir)


def first_state(
    model: nn.Module,
    adam: Adam,
    seed: int,
    checkpoints: checkpoint.Checkpoints | None,
    layout: parallel.Layout,
) -> TrainState:
    """The state to start from: the newest checkpoint's, else one of random parameters."""
    initialise = functools.partial(random_state, model, adam)
    shapes = jax.eval_shape(initialise, jax.random.key(seed))
    like = parallel.to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(like.parameters, like.optimizer_state)):
        step, *trees = restored
        logging.info("going on from step %d", step)
        number = jax.jit(lambda: jnp.int32(step), out_shardings=like.step.sharding)()
        return parallel.from_saved(TrainState(number, *trees), layout)
    shardings = parallel.state_shardings(shapes, layout)
    return jax.jit(initialise, out_shardings=shardings)(jax.random.key(seed))


def random_state(model: nn.Module, adam: Adam, rng: jax.Array) -> TrainState:
    """The state before the first update."""
    parameters = trained.initial_parameters(model, rng)
    return TrainState(jnp.int32(0), parameters, adam.init(parameters))


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
    state: TrainState,
    layout: parallel.Layout,
    examiner: evaluate.Examiner,
    checkpoints: checkpoint.Checkpoints,
    log: metrics.Log,
    samples: int,
) -> None:
    """Loss, BLEU and sample translations of the validation split; keeps the best parameters."""
    scores, translations = examiner.examine(parallel.gathered(state.parameters, layout))
    sample = examiner.sample(translations, samples)
    log.write("validation", step, {**scores, "samples": sample})
    parameters = parallel.to_save(state, layout).parameters
    best = checkpoints.save_best(step, parameters, scores["bleu"])
    logging.info(
        "step %d: validation BLEU %.2f%s, chrF %.2f, loss %.4f, perplexity %.3f\n\n%s",
        *(step, scores["bleu"], " (best so far)" if best else "", scores["chrf"]),
        *(scores["loss"], scores["perplexity"], sample),
    )


def describe(
    config: ConfigDict,
    state: TrainState,
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
