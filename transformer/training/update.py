"""The training state and one update: gradient, then optimizer, unless non-finite."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from transformer.distributed.parallel_step import random_per_device, sum_over_devices
from transformer.models import kernels
from transformer.training import optimizer as optimizers

Tree = Any


class TrainState(NamedTuple):
    """The training state. It holds no random key, because keys derive from seed and step."""

    step: jax.Array  # number of batches seen
    skipped: jax.Array  # number of non-finite updates among them
    params: Tree
    opt_state: Tree

    @property
    def saved(self) -> tuple[Tree, Tree]:
        """The params, and what a checkpoint has beside them; its folder names the step."""
        return self.params, {"opt_state": self.opt_state, "skipped": self.skipped}


def init_state(params: Tree, optimizer: optax.GradientTransformation) -> TrainState:
    """Returns the state before the first update."""
    return TrainState(jnp.int32(0), jnp.int32(0), params, optimizer.init(params))


def make_step(config: ConfigDict, loss: Callable) -> tuple[optax.GradientTransformation, Callable]:
    """Returns a config's optimizer and its `train_step`, called (state, batch, *, axis=None)."""
    options = config.optimizer.to_dict()
    schedule = optimizers.make_schedule(**options.pop("schedule"))
    optimizer = optimizers.make_optimizer(schedule, **options)

    def loss_of_trained(params: Tree, batch: dict, *, rng: jax.Array) -> dict:
        return loss(optimizers.stop_gradients(params, options["frozen"]), batch, rng=rng)

    return optimizer, functools.partial(
        train_step,
        loss=loss_of_trained if options["frozen"] else loss,
        optimizer=optimizer,
        schedule=schedule,
        seed=config.train.seed,
        accumulate=config.train.accumulate,
    )


def train_step(
    state: TrainState,
    batch: dict,
    *,
    loss: Callable,
    optimizer: optax.GradientTransformation,
    schedule: Callable[[jax.Array], jax.Array],
    seed: int,
    accumulate: int,
    axis: str | None = None,
) -> tuple[TrainState, dict]:
    """Returns the state after one update, and its metrics.

    `loss(params, batch, rng=rng)` returns sums over a batch, including 'loss' and 'weight'. The
    metrics are the sums over the global batch, 'gradient_norm', 'learning_rate', 'skipped' and
    'finite'.

    With `axis`, `batch` is this device's part, and sums are all-reduced over that mapped axis.
    Without it, `batch` is the global batch. The summed gradient is divided by the weight of the
    global batch. In a mean of per-device means, a token's weight would depend on the number of
    tokens on its device.
    """
    # Random numbers depend on (seed, step) alone, so that a resumed run draws the same.
    rng = jax.random.fold_in(jax.random.key(seed), state.step)
    rng = random_per_device(rng, axis)
    gradients, sums = _summed_gradient(loss, state.params, micro_batches(batch, accumulate), rng)
    gradients, sums = sum_over_devices((gradients, sums), axis)
    norm = kernels.chosen().norm(_divided(gradients, sums["weight"]), axis)
    learning_rate = schedule(state.step + 1 - state.skipped)  # skipped updates do not count
    # A non-finite update is skipped: params, optimizer state and its count of updates stay, while
    # the step advances to the next batch. The new params are not checked, because one more pass
    # over params and moments would take 1.6 of 20 ms on eight TPUs (base, their compiler's
    # estimate). If a huge rate (with Adam around 1e38) makes them overflow despite a finite
    # gradient, the next loss is non-finite.
    finite = jnp.isfinite(sums["loss"] + norm + learning_rate)
    update = functools.partial(_updated, optimizer)
    operands = gradients, sums["weight"], state
    params, opt_state = kernels.chosen().cond(finite, update, _kept, *operands)
    step, skipped = state.step + 1, state.skipped + jnp.int32(~finite)
    metrics = {
        **sums,
        "gradient_norm": norm,
        "learning_rate": learning_rate,
        "skipped": skipped,
        "finite": finite,
    }
    return TrainState(step, skipped, params, opt_state), metrics


def _updated(
    optimizer: optax.GradientTransformation, gradients: Tree, weight: jax.Array, state: TrainState
) -> tuple[Tree, Tree]:
    """Returns params and optimizer state, updated by gradients / weight."""
    # Divide again, so that the norm's quotients need not all stay in memory.
    gradients = _divided(gradients, weight)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    return optax.apply_updates(state.params, updates), opt_state


def _kept(gradients: Tree, weight: jax.Array, state: TrainState) -> tuple[Tree, Tree]:
    """Returns params and optimizer state, unchanged; takes the arguments of an update."""
    return state.params, state.opt_state


def _divided(gradients: Tree, weight: jax.Array) -> Tree:
    return jax.tree.map(lambda g: g / weight, gradients)


def micro_batches(batch: Tree, accumulate: int) -> Tree:
    """Reshapes [rows, ...] to [accumulate, rows / accumulate, ...].

    Each micro-batch takes rows from every device, so that no row moves. Example: with rows 0 to 7
    on 2 devices, 2 micro-batches have rows 0, 2, 4, 6 and 1, 3, 5, 7.
    """
    # Row i is row i // accumulate of micro-batch i % accumulate.
    return jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)


def _summed_gradient(loss: Callable, params: Tree, parts: Tree, rng: jax.Array) -> tuple:
    """Returns the gradient of the summed loss, and all sums, over a batch's micro-batches.

    `parts` are [accumulate, rows, ...], computed sequentially.
    """

    def summed_loss(params: Tree, part: dict, rng: jax.Array) -> tuple[jax.Array, dict]:
        sums = loss(params, part, rng=rng)
        return sums["loss"], sums

    gradient = jax.grad(summed_loss, has_aux=True)
    accumulate = len(jax.tree.leaves(parts)[0])
    first = jax.tree.map(lambda x: x[0], parts)
    if accumulate == 1:
        return gradient(params, first, rng)

    # Gradient accumulation: the scan holds the activations of one micro-batch at a time.
    def add(total: Tree, numbered_part: tuple) -> tuple[Tree, None]:
        number, part = numbered_part
        of_part = gradient(params, part, jax.random.fold_in(rng, number))
        return jax.tree.map(jnp.add, total, of_part), None

    shapes = jax.eval_shape(gradient, params, first, rng)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, (jnp.arange(accumulate), parts))
    return total
