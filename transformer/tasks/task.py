"""The seam between what is learnt and how: `Task`, all that training knows of a task."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.data.batches import Batches
from transformer.errors import UserError
from transformer.tasks import TASKS

Tree = Any


class Task(NamedTuple):
    """What is learnt, as values and functions."""

    model: nn.Module
    init: Callable[[jax.Array], Tree]  # (rng) -> params
    batches: Batches  # each {'inputs': ..., 'targets': ..., 'weights': ...}
    # (params, batch, *, rng) -> {name: sum over the batch}: 'loss', 'weight' (what it is divided
    # by), and any others.
    loss: Callable
    # (params, should_stop) -> {name: number or text}, or None in all processes if one was told to
    # stop. Collective.
    evaluate: Callable[[Tree, Callable[[], bool]], dict | None]
    rehearse: Callable[[Tree], None]  # evaluate's largest shapes, once: what does not fit is said
    best_by: str  # the score that chooses best/ and ends patience
    best_is: str  # 'highest' or 'lowest'
    unit: str  # what 'weight' counts: 'token', 'image'
    summarise: Callable[[dict], dict]  # means per unit -> what else is logged of them
    identity: dict[str, str]  # {'vocabulary': fingerprint}: checkpoints have to agree
    about: str  # the data, for a person


def load_task(name: str) -> ModuleType:
    """The module of a task by its name in TASKS."""
    if name not in TASKS:
        raise UserError(f"config.task is one of {', '.join(TASKS)}, found {name!r}")
    return importlib.import_module(TASKS[name])


def init_params(model: nn.Module, example: dict, rng: jax.Array) -> Tree:
    """Random params of a model that is called with an example's inputs: a function of the model and
    the key alone."""
    inputs = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), example["inputs"])
    return model.init(rng, **inputs, train=False)["params"]


def abstract_params(model: nn.Module, example: dict) -> Tree:
    """The shapes and types of a model's params, without any being made."""
    return jax.eval_shape(lambda rng: init_params(model, example, rng), jax.random.key(0))
