"""Gradients -> updates: any optimizer of optax, and the paper's learning rate (section 5.3)."""

import functools
import inspect
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer.errors import UserError

Schedule = Callable[[jax.Array], jax.Array]


def inverse_square_root(
    step: jax.Array | int, *, d_model: int, warmup_steps: int, factor: float
) -> jax.Array:
    """The learning rate of update 1, 2, ... (paper, equation 3): warm-up, then step^-0.5."""
    step = jnp.asarray(step, jnp.float32)
    return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup_steps**-1.5)


def make_schedule(name: str, **arguments: float) -> Schedule:
    """The learning rate of update 1, 2, ...: the paper's, or one of `optax.schedules` by name."""
    if name == "inverse_square_root":
        return _bound(inverse_square_root, "config.optimizer.schedule", arguments)
    make = getattr(optax.schedules, name, None)
    if not callable(make):
        raise UserError(
            "config.optimizer.schedule.name is inverse_square_root or a schedule of optax, such as "
            f"warmup_cosine_decay_schedule, found {name!r}"
        )
    # Optax's count updates from 0: what follows the first update is the rate of the second.
    schedule = _bound(make, "config.optimizer.schedule", arguments)()
    return lambda step: jnp.float32(schedule(jnp.asarray(step, jnp.int32) - 1))


def make_optimizer(
    schedule: Schedule, *, name: str, clip_norm: float, arguments: Mapping[str, float]
) -> optax.GradientTransformation:
    """`optax.NAME(learning_rate, **arguments)`, behind clipping by global norm if `clip_norm` > 0.

    The paper's is Adam (Kingma and Ba 2015), and clips nothing. The learning rate goes by the
    number of updates, which are counted from 1.
    """
    make = getattr(optax, name, None)
    if not callable(make) or "learning_rate" not in inspect.signature(make).parameters:
        raise UserError(
            "config.optimizer.name is an optimizer of optax with a learning rate, such as adam, "
            f"adamw, sgd, lion or adafactor, found {name!r}"
        )
    make = _bound(make, "config.optimizer.arguments", arguments)
    optimizer = make(learning_rate=lambda count: schedule(count + 1))
    return optax.chain(optax.clip_by_global_norm(clip_norm), optimizer) if clip_norm else optimizer


def _bound(function: Callable, where: str, arguments: Mapping[str, float]) -> Callable:
    """The function with these arguments, if it has them."""
    known = inspect.signature(function).parameters
    for key in arguments:
        if key not in known:
            raise UserError(
                f"{where}.{key}: {function.__name__} has no such argument; it has "
                f"{', '.join(known)}"
            )
    return functools.partial(function, **arguments)


def check(*, name: str, clip_norm: float, arguments: Mapping, schedule: Mapping) -> None:
    """UserError for values of `config.optimizer` that cannot work."""
    where = "config.optimizer"
    if clip_norm < 0:
        raise UserError(f"{where}.clip_norm is at least 0, found {clip_norm}")
    for key in {"b1", "b2"} & arguments.keys():
        if not 0 <= np.float32(arguments[key]) < 1:
            raise UserError(f"{where}.arguments.{key} is from 0 to below 1, found {arguments[key]}")
    # Adam divides 0 by eps where all gradients so far were 0.
    positive = {"arguments.eps": arguments.get("eps"), "schedule.factor": schedule.get("factor")}
    for key, value in positive.items():
        if value is not None and value < np.finfo(np.float32).tiny:
            raise UserError(f"{where}.{key} is above 0, as float32 has it, found {value}")
    if schedule.get("warmup_steps", 1) < 1:
        raise UserError(
            f"{where}.schedule.warmup_steps is at least 1, found {schedule['warmup_steps']}"
        )
    make_optimizer(make_schedule(**schedule), name=name, clip_norm=clip_norm, arguments=arguments)
