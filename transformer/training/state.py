"""The state of training: how it begins, is saved and restored."""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from transformer.checkpoints.manager import Checkpoints
from transformer.checkpoints.param_paths import flatten, unflatten
from transformer.distributed.layout import Layout, from_saved, state_shardings, to_restore, to_save

Tree = Any


class TrainState(NamedTuple):
    """The state of training. It holds no random key: keys are derived from seed and step."""

    step: jax.Array  # number of batches seen
    skipped: jax.Array  # number of them whose update was non-finite, and so skipped
    params: Tree
    opt_state: Tree


def init_state(
    init: Callable[[jax.Array], Tree], optimizer: optax.GradientTransformation, rng: jax.Array
) -> TrainState:
    """Returns the state before the first update."""
    params = init(rng)
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
    initialise = functools.partial(init_state, init, optimizer)
    key = jax.random.key(seed)
    traced, shapes = jax.make_jaxpr(initialise, return_shape=True)(key)
    # Abstract state: no params are initialised where a checkpoint is restored.
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
    arrays = by_parts(traced, key, jax.tree.leaves(shardings))
    state = jax.tree.unflatten(jax.tree.structure(shapes), arrays)
    if not load_params:
        return state
    params = unflatten(flatten(state.params) | loaded)
    # Again, for an optimizer whose first state depends on the params.
    restart = lambda params: init_state(lambda _: params, optimizer, None)
    return jax.jit(restart, out_shardings=shardings)(params)


def save(checkpoints: Checkpoints, step: int, state: TrainState, layout: Layout) -> None:
    """Starts saving a state; its arrays may be donated on return."""
    # Global arrays, as the checkpoint manager requires of every process.
    saved_state = to_save(state, layout)
    checkpoints.save(step, saved_state.params, _with_skipped(saved_state))


def _with_skipped(state: TrainState) -> Tree:
    """Returns what is saved beside the params: the optimizer state and the count of skips."""
    return {"opt_state": state.opt_state, "skipped": state.skipped}


# For speed alone: a traced initialisation as many small programs instead of a large one.


def by_parts(traced: ClosedJaxpr, key: jax.Array, shardings: Sequence) -> list[jax.Array]:
    """Returns the outputs of a function traced with a random key, each with its sharding.

    The outputs are bit by bit those of the jitted function, but take a third of the time to
    compile: in one program, XLA compiles the initialiser of every parameter. Here each output has a
    program of its own, made of the equations that lead to it. The random key is an argument of the
    program, so that outputs with the same initialiser and shape share one:

        a = normal(fold_in(key, 1), (2, 3))
        b = normal(fold_in(key, 2), (2, 3))    # the program of a, with another key
        c = zeros(3)
    """
    jaxpr = traced.jaxpr
    producers = {x: i for i, eqn in enumerate(jaxpr.eqns) for x in eqn.outvars}
    # The variables that are known: constants, the key, and the keys derived from it so far.
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*traced.consts, key], strict=True))
    programs, outputs = {}, []
    for output, sharding in zip(jaxpr.outvars, shardings, strict=True):
        body = []
        # Backward slice of the jaxpr; equations that derive a key are run at once, not collected.
        for i in _leading_to(output, jaxpr.eqns, producers, known=values):
            eqn = jaxpr.eqns[i]
            inputs = _variables(eqn.invars)
            is_key = jax.dtypes.issubdtype(eqn.outvars[0].aval.dtype, jax.dtypes.prng_key)
            if len(eqn.outvars) == 1 and is_key and values.keys() >= set(inputs):
                derive = _program(jaxpr, inputs, *eqn.outvars, [eqn])
                values[eqn.outvars[0]] = derive(*map(values.get, inputs))[0]
            else:
                body.append(eqn)
        read = _variables([x for eqn in body for x in eqn.invars] + [output])
        inputs = [x for x in read if x in values]
        # Cache of programs: outputs of the same signature and sharding share one.
        signature = _signature(inputs, output, body), sharding
        if signature not in programs:
            function = _program(jaxpr, inputs, output, body)
            programs[signature] = jax.jit(function, out_shardings=[sharding])
        outputs += programs[signature](*map(values.get, inputs))
    return outputs


def _leading_to(
    output: Var | Literal, eqns: list[JaxprEqn], producers: dict[Var, int], known: dict[Var, Any]
) -> list[int]:
    """Returns the indices of the equations that compute `output` from variables in `known`."""
    indices, wanted = set(), _variables([output])
    # Reachability from the output, against the direction of the data.
    while wanted:
        if (x := wanted.pop()) not in known and producers[x] not in indices:
            indices.add(producers[x])
            wanted += _variables(eqns[producers[x]].invars)
    return sorted(indices)


def _signature(inputs: list[Var], output: Var | Literal, equations: list[JaxprEqn]) -> tuple:
    """Returns a key that is equal for two programs if and only if they compute the same.

    Variables are numbered, so that their identity does not matter. Jaxprs inside of an equation,
    such as that of jax.random.normal for a shape, are the same object if JAX traced them once.
    """
    defined = inputs + [x for eqn in equations for x in eqn.outvars]
    numbers = {x: i for i, x in enumerate(defined)}

    def name(x: Var | Literal) -> tuple:
        return x.aval, numbers[x] if isinstance(x, Var) else np.asarray(x.val).tobytes()

    return (
        tuple(x.aval for x in defined),
        tuple(
            (eqn.primitive, tuple(eqn.params.items()), tuple(map(name, eqn.invars)))
            for eqn in equations
        ),
        name(output),
    )


def _variables(atoms: Iterable[Var | Literal]) -> list[Var]:
    """Returns the variables among variables and literals, each once."""
    return list(dict.fromkeys(x for x in atoms if isinstance(x, Var)))


def _program(
    jaxpr: Jaxpr, inputs: list[Var], output: Var | Literal, equations: list[JaxprEqn]
) -> Callable[..., list]:
    """Returns the function that some equations of a jaxpr compute, (*inputs) -> [output]."""
    unnamed = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    part = jaxpr.replace(
        constvars=[], invars=inputs, outvars=[output], eqns=equations, debug_info=unnamed
    )
    return jaxpr_as_fun(ClosedJaxpr(part, []))
