"""What one update is: a batch's gradient, Adam, the schedule."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from transformer.distributed.step import micro_batches, random_per_device, sum_over_devices
from transformer.tasks import losses, translation
from transformer.training import optimizer

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
    rng = random_per_device(rng, axis)

    def summed_loss(parameters: Tree, part: dict, rng: jax.Array) -> tuple[jax.Array, dict]:
        sums = losses.translation_loss(
            parameters, part, model=model, rng=rng, blocks=loss_blocks, **smoothing
        )
        return sums["loss"], sums

    gradient = jax.grad(summed_loss, has_aux=True)

    def add(total: Tree, numbered_part: tuple) -> tuple[Tree, None]:
        number, part = numbered_part
        new = gradient(state.parameters, part, jax.random.fold_in(rng, number))
        return jax.tree.map(jnp.add, total, new), None

    parts = micro_batches(batch, accumulate)
    if accumulate == 1:
        gradients, sums = gradient(state.parameters, jax.tree.map(lambda x: x[0], parts), rng)
    else:
        zeros = jax.tree.map(jnp.zeros_like, (state.parameters, dict.fromkeys(losses.SUMS, 0.0)))
        numbers = jnp.arange(accumulate)
        (gradients, sums), _ = jax.lax.scan(add, zeros, (numbers, parts))
    gradients, sums = sum_over_devices((gradients, sums), axis)
    gradients = jax.tree.map(lambda g: g / sums["tokens"], gradients)

    step = state.step + 1
    rate, norm = learning_rate(step), optax.tree.norm(gradients)
    updates, optimizer_state = adam.update(gradients, state.optimizer_state, state.parameters)
    parameters = jax.tree.map(lambda p, update: p - rate * update, state.parameters, updates)
    # A non-finite update is left out: the step counts, params and moments stay. Of a finite
    # gradient norm the moments are finite, but the params need not be: a rate may overflow.
    good = jnp.isfinite(sums["loss"] + norm) & all_finite(parameters)
    updated, before = (parameters, optimizer_state), (state.parameters, state.optimizer_state)
    updated = jax.tree.map(lambda new, old: jnp.where(good, new, old), updated, before)
    left_out = step - optax.tree.get(updated[1], "count")
    sums |= {"gradient_norm": norm, "learning_rate": rate, "left_out": left_out, "good": good}
    return TrainState(step, *updated), sums


def all_finite(tree: Tree) -> jax.Array:
    """Whether all numbers of the tree are finite, and their sum: a sum is quicker than `all`."""
    return jnp.isfinite(sum(jnp.sum(x) for x in jax.tree.leaves(tree)))


def from_config(config: ConfigDict, model: nn.Module) -> tuple[Adam, Callable]:
    """A config's Adam, and its `train_step` of a state, a batch and an axis."""
    learning_rate = functools.partial(
        optimizer.inverse_square_root,
        d_model=config.model.d_model,
        warmup_steps=config.optimizer.warmup_steps,
        factor=config.optimizer.factor,
    )
    adam = optimizer.adam(**config.optimizer.adam)
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


def random_state(model: nn.Module, adam: Adam, rng: jax.Array) -> TrainState:
    """The state before the first update."""
    parameters = translation.initial_parameters(model, rng)
    return TrainState(jnp.int32(0), parameters, adam.init(parameters))
