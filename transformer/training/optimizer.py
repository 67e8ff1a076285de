"""The optimizer, any optax optimizer by name, and the learning rate schedule (paper 5.3)."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.contrib

from transformer.checkpoints.weights import flatten, is_below, prefixes, unflatten
from transformer.errors import UserError, check_value, did_you_mean

Tree = Any
Schedule = Callable[[jax.Array], jax.Array]


def inverse_square_root(
    step: jax.Array | int, *, d_model: int, warmup_steps: int, factor: float
) -> jax.Array:
    """Returns the learning rate of update `step` = 1, 2, ... (paper, equation 3).

    Linear warm-up for `warmup_steps` updates, then decay with step^-0.5. `factor` 1 is the paper's.
    """
    step = jnp.asarray(step, jnp.float32)
    # The two terms are equal at the peak, step = warmup_steps.
    return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup_steps**-1.5)


def make_schedule(name: str, **arguments: float) -> Schedule:
    """Returns a schedule, update 1, 2, ... -> learning rate.

    `name` is the paper's 'inverse_square_root', or a schedule of `optax.schedules`. UserError for
    an unknown name.
    """
    if name == "inverse_square_root":
        return functools.partial(inverse_square_root, **arguments)
    make = getattr(optax.schedules, name, None)
    if not callable(make):
        raise UserError(
            "config.optimizer.schedule.name must be inverse_square_root or a schedule of optax, "
            f"such as warmup_cosine_decay_schedule, found {name!r}"
        )
    if {"warmup_steps", "decay_steps"} <= arguments.keys():
        # A trial of few steps may end within the warm-up, but optax needs a step of decay after it.
        decay_steps = max(arguments["decay_steps"], arguments["warmup_steps"] + 1)
        arguments = {**arguments, "decay_steps": decay_steps}
    # Optax's schedules count from 0, ours from 1: update 1 has optax's rate of count 0.
    schedule = make(**arguments)
    return lambda step: jnp.float32(schedule(jnp.asarray(step, jnp.int32) - 1))


def make_optimizer(
    schedule: Schedule,
    *,
    name: str,
    clip_norm: float,
    arguments: Mapping[str, float],
    frozen: str = "",
    moving_average: float = 0.0,
) -> optax.GradientTransformation:
    """Returns `optax.NAME(learning_rate, **arguments)`, after clipping if `clip_norm` > 0.

    Gradients are clipped by their global norm. The paper uses Adam (Kingma and Ba 2015) without
    clipping. `schedule` gets the update's number from 1; skipped updates do not count. Parameters
    below the path prefixes in `frozen` are not updated, and have no state. With `moving_average`,
    the state has a `MovingAverage` of that decay.
    """
    optimizers = _optimizers()
    if name not in optimizers:
        hint = did_you_mean(name.lower(), optimizers)
        raise UserError(
            "config.optimizer.name must be an optimizer of optax with a learning rate, such as "
            f"adam, adamw, sgd, lion, adafactor or muon, found {name!r}{hint}"
        )
    if name == "muon":
        arguments = {"muon_weight_dimension_numbers": hidden_matrices, **arguments}
    # Optax counts the updates before this one: update 1 has count 0.
    optimizer = optimizers[name](learning_rate=lambda count: schedule(count + 1), **arguments)
    if clip_norm:
        optimizer = optax.chain(optax.clip_by_global_norm(clip_norm), optimizer)
    if frozen:
        # Not optax.masked, which passes a frozen parameter's gradient on as its update.
        transforms = {"trained": optimizer, "frozen": optax.set_to_zero()}
        optimizer = optax.multi_transform(transforms, functools.partial(_labels, prefixes(frozen)))
    return optax.chain(optimizer, keep_average(moving_average)) if moving_average else optimizer


class MovingAverage(NamedTuple):
    """An exponential moving average of the params, after so many updates."""

    count: jax.Array
    params: Tree


def keep_average(decay: float) -> optax.GradientTransformation:
    """Returns a transformation that changes no update, and whose state is a `MovingAverage`.

    Update t = 0, 1, ... has the decay min(decay, (1 + t) / (10 + t)), as TensorFlow's average has:
    otherwise the initial params would count for thousands of updates.
    """

    def update(updates: Tree, state: MovingAverage, params: Tree) -> tuple[Tree, MovingAverage]:
        kept = jnp.minimum(decay, (1 + state.count) / (10 + state.count))
        params = optax.apply_updates(params, updates)
        params = optax.incremental_update(params, state.params, step_size=1 - kept)
        return updates, MovingAverage(state.count + 1, params)

    return optax.GradientTransformation(lambda params: MovingAverage(jnp.int32(0), params), update)


def params_to_score(params: Tree, opt_state: Tree) -> Tree:
    """Returns the moving average of the params if the optimizer keeps one, otherwise the params."""
    return next((part.params for part in opt_state if isinstance(part, MovingAverage)), params)


def _optimizers() -> dict[str, Callable]:
    """Returns {name: function} of optax's optimizers with a learning rate."""
    # Schedule-free optimizers need different params in evaluation. scale_by_... are parts of an
    # optimizer, and capitalised names are types.
    unusable = ("schedule_free", "scale_by", "_")
    return {
        name: make
        for name, make in {**vars(optax.contrib), **vars(optax)}.items()
        if callable(make) and name.islower() and not name.startswith(unusable)
        if "learning_rate" in inspect.signature(make).parameters
    }


def hidden_matrices(params: Tree) -> Tree:
    """Returns, for each parameter, the axes of rows and columns of Muon's matrix, or None.

    Matrices are the kernels of hidden layers, with all heads of a projection in one. Adam trains
    the first and last layer (embeddings, patches, classes), biases and norms, as Muon's author
    recommends (Jordan et al. 2024).
    """

    def axes(path: tuple, x: jax.Array) -> optax.contrib.MuonDimensionNumbers | None:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if not name.endswith("/kernel") or name.startswith(("patches/", "head/kernel")):
            return None
        rows = x.ndim - 1 if name.endswith("/output/kernel") else 1  # HCD, and DHK or DF
        return optax.contrib.MuonDimensionNumbers(tuple(range(rows)), tuple(range(rows, x.ndim)))

    return jax.tree_util.tree_map_with_path(axes, params)


def stop_gradients(params: Tree, frozen: str) -> Tree:
    """Returns all params, with gradients stopped below the prefixes in `frozen`."""
    named = prefixes(frozen)
    stop = lambda path, x: jax.lax.stop_gradient(x) if is_below(path, named) else x
    return unflatten({path: stop(path, x) for path, x in flatten(params).items()})


def _labels(frozen: list[str], params: Tree) -> Tree:
    """Labels each parameter 'frozen' or 'trained'; UserError if a prefix or 'trained' is empty."""
    flat = flatten(params)
    for prefix in frozen:
        if not any(is_below(path, [prefix]) for path in flat):
            raise UserError(
                f"config.optimizer.frozen: {prefix!r} is not a prefix of a parameter's path: paths "
                f"begin with {', '.join(sorted(params))}, such as {min(flat)!r}"
            )
    labels = {path: "frozen" if is_below(path, frozen) else "trained" for path in flat}
    if "trained" not in labels.values():
        raise UserError(f"config.optimizer.frozen={','.join(frozen)} leaves nothing to train")
    return unflatten(labels)


def check(
    *, name: str, arguments: Mapping, schedule: Mapping, frozen: str, **options: float
) -> None:
    """Raises UserError for invalid values of `config.optimizer`; the run checks `frozen`."""
    for key, value in schedule.items():
        if isinstance(value, Mapping):  # such as {step: factor}, which no command line can say
            raise UserError(f"config.optimizer.schedule.{key} must be a number, found {value!r}")
        if isinstance(value, int | float):  # a negative rate would ascend
            check_value(f"optimizer.schedule.{key}", value, "at least 0")
    # A trial update of abstract params makes optax check its arguments now.
    abstract = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    params = {"layer": {"kernel": abstract(2, 3), "bias": abstract(3)}}

    def update(params: Tree) -> Tree:
        rate = make_schedule(**schedule)
        optimizer = make_optimizer(rate, name=name, arguments=arguments, **options)
        return optimizer.update(params, optimizer.init(params), params)

    try:
        jax.eval_shape(update, params)
    except UserError:
        raise
    # It needs more than a gradient, or other arguments.
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(
            f"config.optimizer: {name} does not work with these arguments, or "
            f"{schedule['name']} with its own: {error}"
        ) from error
