"""A first state by many small programs has the bits of the one large program."""

import logging

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import layouts, tiny
from helpers.cases import slow_but

from transformer.training.state import by_parts

KEY = jax.random.key(3)
GAUSSIAN = nn.initializers.normal(0.02)


def parts(function):
    """The outputs of a function of KEY, by parts, on one device."""
    traced = jax.make_jaxpr(function)(KEY)
    on_one = layouts.layout_of("jit", 1).replicated
    return by_parts(traced, KEY, [on_one] * len(traced.out_avals))


@pytest.mark.parametrize(
    ("strategy", "mesh"),
    slow_but([("pmap", (1, 1, 1)), ("pmap", (8, 1, 1)), ("jit", (2, 2, 2))], ("jit", (2, 2, 2))),
)
def test_a_state_is_that_of_one_program_on_one_device(strategy, mesh):
    layouts.assert_first_state_is_that_of_one_program(layouts.model(), strategy, mesh)


def test_outputs_of_one_initialiser_share_a_program(caplog):
    def function(key):
        return [GAUSSIAN(jax.random.fold_in(key, i), (3, 41)) for i in range(20)]

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        outputs = parts(function)
    compiled = [line for line in caplog.messages if "Finished XLA compilation" in line]
    assert sum("jaxpr_as_fun" in line for line in compiled) == 1
    assert len({x.tobytes() for x in map(np.asarray, outputs)}) == 20
    tiny.assert_same_bits(outputs, jax.jit(function)(KEY))


def test_outputs_of_different_programs_do_not_share_one():
    tables = np.arange(3.0, dtype=np.float32), np.arange(1.0, 4.0, dtype=np.float32)

    def function(key):
        draws = [jax.random.normal(key, (99,)) * x for x in (0.1, 0.1000001)]
        closed = [jax.jit(lambda key, t=t: t + jax.random.normal(key, (3,)))(key) for t in tables]
        a, b = jax.random.split(key)
        x, y = jax.random.uniform(a, (2,)), jax.random.uniform(b, (2,))
        order = [x - y, y - x]
        whole = [jax.random.bits(key, (4,), kind) for kind in (jnp.uint8, jnp.uint16)]
        fixed = [jnp.zeros(2), -jnp.zeros(2), jnp.int32(0), jnp.float32(0), jnp.asarray(tables[0])]
        return [*draws, *closed, *order, *whole, *fixed]

    tiny.assert_same_bits(parts(function), jax.jit(function)(KEY))
