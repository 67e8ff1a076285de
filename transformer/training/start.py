"""The start of a run: its state, restored or random, and a dry run."""

import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from transformer.checkpoints import weights
from transformer.checkpoints.manager import Checkpoints
from transformer.data.batches import Batches
from transformer.distributed import layout as layouts
from transformer.distributed.parallel_step import compile_step, rows_for_devices, shard_batch
from transformer.errors import quantity
from transformer.runtime import memory, progress
from transformer.tasks.task import Task
from transformer.training.update import TrainState, init_state, make_step
from transformer.workdir.saved_config import write_config


def open_run(
    config: ConfigDict, task: Task, workdir: Path, layout: layouts.Layout
) -> tuple[Checkpoints, TrainState, Callable]:
    """Opens the checkpoints, restores or makes the state, then writes config.json.

    Returns (checkpoints, state, compiled step).
    """
    optimizer, step_function = make_step(config, task.loss)
    checkpoints = Checkpoints(
        workdir,
        keep=max(config.train.keep, config.evaluate.average_last),
        every=config.train.save_every,
        identity=task.identity,
        best_is=task.best_is,
    )
    load_params = None
    if config.train.init_from:
        where = config.train.init_from, config.train.init_skip
        load_params = functools.partial(weights.load_init_from, *where, task.identity, layout)
    state = restore_or_init(
        task.init, optimizer, config.train.seed, checkpoints, layout, load_params
    )
    write_config(config, workdir)
    return checkpoints, state, compile_step(step_function, layout, state)


def restore_or_init(
    init: Callable[[jax.Array], dict],
    optimizer: optax.GradientTransformation,
    seed: int,
    checkpoints: Checkpoints | None,
    layout: layouts.Layout,
    load_params: Callable[[dict], dict[str, jax.Array]] | None = None,
) -> TrainState:
    """Returns the state of the newest undamaged checkpoint, or a state with random params.

    Without a checkpoint, `load_params(shapes)` replaces random params by {path: array}. Collective.
    """
    key = jax.random.key(seed)
    shapes = jax.eval_shape(lambda key: init_state(init(key), optimizer), key)
    # Only shapes, because a checkpoint makes random params unnecessary.
    abstract = layouts.to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(*abstract.saved)):
        number, params, rest = restored
        logging.info("resuming from step %d", number)
        # In jit, because only a compiled program can make an array across several processes.
        step = jax.jit(lambda: jnp.int32(number), out_shardings=abstract.step.sharding)()
        state = TrainState(step, rest["skipped"], params, rest["opt_state"])
        return layouts.from_saved(state, layout)
    loaded = load_params(shapes.params) if load_params else {}  # first, as it refuses a mismatch
    shardings = layouts.state_shardings(shapes, layout)
    params = weights.flatten(layouts.place(init(key), shardings.params))
    params = weights.unflatten(params | loaded)
    # Without the params, because the program would hold them twice.
    init_rest = lambda params: init_state(params, optimizer)._replace(params=None)
    rest = jax.jit(init_rest, out_shardings=shardings._replace(params=None))(params)
    return rest._replace(params=params)


def load_batch(
    batches: Batches, layout: layouts.Layout, accumulate: int, t: int
) -> tuple[dict, tuple[int, int]]:
    """Returns batch t sharded over the devices, and its shape (padded rows, length).

    Rows of weight 0 pad the batch to a multiple of data-parallel devices x `accumulate`: on 8
    devices, 195 rows become 200 with accumulate 1, and 208 with accumulate 2.
    """
    rows, length = batches.shape(t)
    padded_rows = rows_for_devices(rows, layout.num_row_shards * accumulate)
    batch = shard_batch(functools.partial(batches.rows, t), padded_rows, layout)
    return batch, (padded_rows, length)


# For a step that does not fit into memory.
OUT_OF_MEMORY_REMEDY = (
    "lower config.data.batch_tokens (or batch_images), raise config.train.accumulate, or set "
    "config.model.remat=True if the model has it"
)


def dry_run(
    state: TrainState, compiled_step: Callable, load: Callable, task: Task, layout: layouts.Layout
) -> TrainState:
    """Runs validation in its largest shapes, and a step in each batch shape.

    UserError if a program does not fit into the devices' memory. Returns the state unchanged; the
    argument is donated.
    """
    batches = [load(t) for t in task.batches.first_of_each_length()]
    logging.info("dry run: compiling, and running the largest shapes once")
    start = time.perf_counter()
    with progress.waiting("dry run: validation"), memory.trimmed(), ThreadPoolExecutor(1) as thread:
        # On a CPU, compile the step meanwhile. JAX caches the programs for the calls below, which
        # raise any error again. Not on a GPU, whose compiler times kernels.
        if jax.default_backend() == "cpu" and jax.process_count() == 1:
            with jax.debug_nans(False):
                for batch, _ in batches:
                    thread.submit(compiled_step.lower(state, batch).compile)
        task.rehearse(layouts.gather_params(state.params, layout))
    # After validation, so that training's first step finds the memory allocated.
    for batch, (rows, length) in batches:
        what = f"a step with {rows} rows of {length} positions"
        # A batch of zeros has weight 0, so its gradient is non-finite and the update is skipped.
        fits = memory.fits_in_memory(what, OUT_OF_MEMORY_REMEDY)
        with progress.waiting(f"dry run: {what}"), fits, jax.debug_nans(False):
            state, _ = compiled_step(state, jax.tree.map(lambda x: x * 0, batch))
            jax.block_until_ready(state)
        # Undo the dry run's step, so that batch numbers and the schedule stay.
        state = state._replace(step=state.step - 1, skipped=state.skipped - 1)
    message = "dry run done in %.1f s: the largest batches of validation, %s of training"
    logging.info(message, time.perf_counter() - start, quantity(len(batches), "step"))
    return state
