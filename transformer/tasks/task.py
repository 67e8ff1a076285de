"""The interface between a task and training: the record `Task`, and helpers of every task."""

import functools
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
from transformer.errors import UserError, quantity
from transformer.models import fields

Tree = Any


class Task(NamedTuple):
    """A task as the training loop sees it: values and functions."""

    model: nn.Module
    init: Callable[[jax.Array], Tree]  # (rng) -> params
    batches: Batches  # batch t is {'inputs': ..., 'targets': ..., 'weights': ...}
    # (params, batch, *, rng) -> {name: sum over the batch}, with 'loss' and 'weight'. Loss and
    # gradient are divided by the weight of the global batch.
    loss: Callable
    evaluate: Callable[[Tree], dict]  # (params) -> {name: number or text}. Collective
    rehearse: Callable[[Tree], None]  # runs evaluate's largest shapes, to run out of memory early
    best_by: str  # the score of evaluate that chooses best/ and early stopping
    best_is: str  # 'highest' or 'lowest'
    unit: str  # of 'weight': 'token', 'image'
    summarise: Callable[[dict], dict]  # means per unit -> further values to log, such as perplexity
    identity: dict[str, str]  # {'vocabulary': fingerprint}; must equal a checkpoint's
    about: str  # one line on the data, for the log


def make_task(config: ConfigDict, workdir: Path, sizes: dict, batches: Batches, about: str) -> Task:
    """Returns the `Task` of a prepared workdir; the other fields come from the task's module.

    `sizes` are those that its model takes. `about` describes the batches in the log; their number
    is appended.
    """
    module = load_task(config.task)
    model = module.model(config, sizes)
    validation = module.evaluator(config, workdir, model, "validation")
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
    """Returns a task's module by its name in the registry; UserError for an unknown name."""
    return registry.find(registry.TASKS, "task", name)


def build_model(config: ConfigDict, sizes: dict[str, int]) -> nn.Module:
    """Builds the model of `config.architecture` from `config.model` and a task's `sizes`."""
    return fields.build(config.architecture, config.model.to_dict(), **sizes)


def check_packing(model: nn.Module, pack: bool) -> None:
    """Raises UserError if rows are packed and the model would mix their texts."""
    if pack and not getattr(model, "takes_packed_rows", True):
        raise UserError(
            f"config.data.pack=True: {type(model).__name__} or one of its mixers takes only one "
            "text per row; set it to False"
        )


def init_params(model: nn.Module, example: dict, rng: jax.Array) -> Tree:
    """Returns random params, which depend on the model and the key only.

    The model is traced with the shapes of an example's inputs.
    """
    inputs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), example["inputs"])
    init = lambda rng, inputs: model.init(rng, **inputs, train=False)["params"]
    traced, shapes = jax.make_jaxpr(init, return_shape=True)(rng, inputs)
    # Dead code elimination leaves only the initialisers. They run one by one, and share a program
    # per shape, because compiling all as one program takes twice as long.
    is_wanted = [True] * len(traced.jaxpr.outvars)
    initialisers, is_used = partial_eval.dce_jaxpr(traced.jaxpr, is_wanted)
    if any(is_used[1:]):  # a param depends on the inputs (an error), or an effect such as a print
        return model.lazy_init(rng, **inputs, train=False, mutable="params")["params"]
    params = jax.core.eval_jaxpr(initialisers, traced.consts, *[rng] * is_used[0])
    return jax.tree.unflatten(jax.tree.structure(shapes), params)


def abstract_params(model: nn.Module, example: dict) -> Tree:
    """Returns a model's params as jax.ShapeDtypeStruct, without allocating them."""
    # The key is made inside, because outside a program would be compiled for it.
    return jax.eval_shape(lambda: init_params(model, example, jax.random.key(0)))
