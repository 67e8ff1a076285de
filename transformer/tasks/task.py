"""The interface between a task and training: the record `Task`, and helpers of every task."""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import flax.linen as nn
import jax
from jax.interpreters import partial_eval
from ml_collections import ConfigDict

from transformer import registry
from transformer.data.batches import Batches
from transformer.errors import UserError, check_value, quantity
from transformer.models import fields

Tree = Any


class Task(NamedTuple):
    """All that the training loop knows of a task, as values and functions."""

    model: nn.Module
    init: Callable[[jax.Array], Tree]  # (rng) -> params
    batches: Batches  # batch t is {'inputs': ..., 'targets': ..., 'weights': ...}
    # (params, batch, *, rng) -> {name: sum over the batch}. Required are 'loss' and 'weight', by
    # whose sum over the global batch loss and gradient are divided.
    loss: Callable
    evaluate: Callable[[Tree], dict]  # (params) -> {name: number or text}. Collective
    rehearse: Callable[[Tree], None]  # runs evaluate's largest shapes: out of memory shows early
    best_by: str  # the key of evaluate's scores that chooses best/ and early stopping
    best_is: str  # 'highest' or 'lowest'
    unit: str  # what 'weight' counts: 'token', 'image'
    summarise: Callable[[dict], dict]  # means per unit -> further values to log, such as perplexity
    identity: dict[str, str]  # {'vocabulary': fingerprint}; checkpoints of another one are refused
    about: str  # one line that describes the data, for the log


def make_task(
    config: ConfigDict, folder: Path, model: nn.Module, batches: Batches, about: str
) -> Task:
    """Returns the `Task` of a run; all other fields come from its task's module.

    `about` describes the batches in the log; their number is appended.
    """
    module = load_task(config.task)
    validation = module.evaluator(config, folder, model, "validation")
    return Task(
        model=model,
        init=functools.partial(init_params, model, module.example(config, 1)),
        batches=batches,
        loss=module.loss(config, model),
        evaluate=lambda params: validation.score(params)[0],
        rehearse=validation.rehearse,
        summarise=getattr(module, "summarise", lambda means: {}),
        identity=module.identity(config),
        about=f"{about}; {quantity(len(batches), 'batch', 'batches')} an epoch",
        **module.SCORE,
    )


def load_task(name: str) -> ModuleType:
    """Returns the module of a task by its name in the registry; UserError for an unknown name."""
    check_value("task", name, tuple(registry.TASKS))
    return registry.load(registry.TASKS[name])


def build_model(config: ConfigDict, sizes: dict[str, int]) -> nn.Module:
    """Builds the flax module of `config.architecture` from `config.model` and a task's `sizes`."""
    return fields.build(config.architecture, config.model.to_dict(), **sizes)


def check_positions(model: nn.Module, length: int, what: str) -> None:
    """Raises UserError if a model has fewer positions than `length`, which `what` says in words."""
    if (limit := getattr(model, "position_limit", math.inf)) < length:
        raise UserError(
            f"config.model.max_positions={limit} learned positions are fewer than {what}"
        )


def check_packing(model: nn.Module, pack: bool) -> None:
    """Raises UserError if rows are packed, but the model would mix the texts of a row."""
    if pack and not getattr(model, "takes_packed_rows", True):
        raise UserError(
            f"config.data.pack=True: {type(model).__name__} or one of its mixers takes one text a "
            "row only; set it to False"
        )


def init_params(model: nn.Module, example: dict, rng: jax.Array) -> Tree:
    """Returns random params, a function of the model and the key alone.

    The model is traced with the shapes of an example's inputs.
    """
    inputs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), example["inputs"])
    init = lambda rng, inputs: model.init(rng, **inputs, train=False)["params"]
    traced, shapes = jax.make_jaxpr(init, return_shape=True)(rng, inputs)
    # Without what no parameter depends on, only the initialisers are left. They are computed one by
    # one, and those of a shape share a program: to compile all as one takes twice as long.
    is_wanted = [True] * len(traced.jaxpr.outvars)
    initialisers, is_used = partial_eval.dce_jaxpr(traced.jaxpr, is_wanted)
    if any(is_used[1:]):  # by a param, which is an error, or by an effect, such as a print
        return model.lazy_init(rng, **inputs, train=False, mutable="params")["params"]
    params = jax.core.eval_jaxpr(initialisers, traced.consts, *[rng] * is_used[0])
    return jax.tree.unflatten(jax.tree.structure(shapes), params)


def abstract_params(model: nn.Module, example: dict) -> Tree:
    """Returns a model's params as jax.ShapeDtypeStruct, without allocating them."""
    # The key is made inside, where it is traced: outside, a program would be compiled for it.
    return jax.eval_shape(lambda: init_params(model, example, jax.random.key(0)))
