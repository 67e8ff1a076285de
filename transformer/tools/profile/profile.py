"""--mode=profile: traces a few training steps of a config."""

import logging
from pathlib import Path

import jax
from ml_collections import ConfigDict

from transformer.data.batches import prefetch
from transformer.distributed.layout import make_layout
from transformer.distributed.parallel_step import compile_step
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.runtime import paths
from transformer.training import start
from transformer.training.update import TrainState, make_step

WARM_UP = 10  # steps before the trace, because the first ones compile


def profile(config: ConfigDict, workdir: Path) -> None:
    """Writes a trace of `config.profile.steps` steps to WORKDIR/profile, after WARM_UP other steps.

    Training begins with random params and saves none. Each process traces its own devices.
    Collective.
    """
    folder = workdir / "profile"
    if paths.in_bucket(workdir):
        raise UserError(f"--workdir={workdir} must be on a disk, because JAX writes the trace")
    task = prepare.prepare(config, workdir)
    layout = make_layout(config.parallel.strategy, config.parallel.mesh)
    optimizer, step_function = make_step(config, task.loss)
    state = start.restore_or_init(task.init, optimizer, config.train.seed, None, layout)
    compiled_step = compile_step(step_function, layout, state)
    load = lambda t: start.load_batch(task.batches, layout, config.train.accumulate, t)

    def train(state: TrainState, steps: range) -> TrainState:
        for t, (batch, _) in zip(steps, prefetch(load, steps), strict=True):
            with jax.profiler.StepTraceAnnotation("train", step_num=t):
                state, _ = compiled_step(state, batch)
        return jax.block_until_ready(state)  # dispatch is asynchronous

    state = train(state, range(WARM_UP))
    with jax.profiler.trace(folder, create_perfetto_trace=True):
        train(state, range(WARM_UP, WARM_UP + config.profile.steps))
    logging.info("%s: a trace of %d steps (docs/performance.md)", folder, config.profile.steps)
