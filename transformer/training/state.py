"""The state of training: how it begins, is saved and restored."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from transformer.checkpoints.manager import Checkpoints
from transformer.checkpoints.weights import flatten, unflatten
from transformer.distributed.layout import (
    Layout,
    from_saved,
    place,
    state_shardings,
    to_restore,
    to_save,
)

Tree = Any


class TrainState(NamedTuple):
    """The state of training. It holds no random key: keys are derived from seed and step."""

    step: jax.Array  # number of batches seen
    skipped: jax.Array  # number of them whose update was non-finite, and so skipped
    params: Tree
    opt_state: Tree


def init_state(params: Tree, optimizer: optax.GradientTransformation) -> TrainState:
    """Returns the state before the first update."""
    return TrainState(jnp.int32(0), jnp.int32(0), params, optimizer.init(params))


def restore_or_init(
    init: Callable[[jax.Array], Tree],
    optimizer: optax.GradientTransformation,
    seed: int,
    checkpoints: Checkpoints | None,
    layout: Layout,
    load_params: Callable[[Tree], dict[str, jax.Array]] | None = None,
) -> TrainState:
    """Returns the state of the newest undamaged checkpoint, or one with random params.

    Without a checkpoint, the arrays of `load_params(shapes)`, {path: array}, replace random params.
    Collective.
    """
    key = jax.random.key(seed)
    shapes = jax.eval_shape(lambda key: init_state(init(key), optimizer), key)
    # Shapes only: random params are made below, and only without a checkpoint.
    abstract = to_restore(shapes, layout)
    if checkpoints and (restored := checkpoints.restore(abstract.params, _with_skipped(abstract))):
        number, params, rest = restored
        logging.info("resuming from step %d", number)
        # jit, because only a compiled program can make an array on devices of several processes.
        step = jax.jit(lambda: jnp.int32(number), out_shardings=abstract.step.sharding)()
        state = TrainState(step, rest["skipped"], params, rest["opt_state"])
        return from_saved(state, layout)
    loaded = load_params(shapes.params) if load_params else {}  # first: it refuses a mismatch
    shardings = state_shardings(shapes, layout)
    params = unflatten(flatten(place(init(key), shardings.params)) | loaded)
    # The rest alone is computed by a program, which would hold the params twice.
    init_rest = lambda params: init_state(params, optimizer)._replace(params=None)
    rest = jax.jit(init_rest, out_shardings=shardings._replace(params=None))(params)
    return rest._replace(params=params)


def save(checkpoints: Checkpoints, step: int, state: TrainState, layout: Layout) -> None:
    """Starts saving a state; its arrays may be donated on return."""
    # Global arrays, as the checkpoint manager requires of every process.
    saved_state = to_save(state, layout)
    checkpoints.save(step, saved_state.params, _with_skipped(saved_state))


def _with_skipped(state: TrainState) -> Tree:
    """Returns what is saved beside the params; the step is the name of the checkpoint's folder."""
    return {"opt_state": state.opt_state, "skipped": state.skipped}
