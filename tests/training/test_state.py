"""A first state has the bits of one program on one device."""

import math

import jax
import pytest
from helpers import layouts, tiny
from helpers.cases import slow_but

from transformer.distributed import layout
from transformer.training.start import restore_or_init
from transformer.training.update import init_state


@pytest.mark.parametrize(
    ("strategy", "mesh"),
    slow_but([("pmap", (8, 1, 1)), ("jit", (2, 2, 2))], ("jit", (2, 2, 2))),
)
def test_a_state_is_that_of_one_program_on_one_device(strategy, mesh):
    """To the bit, and sharded as the layout says, though many programs make it."""
    place, init = layouts.layout_of(strategy, math.prod(mesh), mesh), layouts.init(layouts.model())
    state = restore_or_init(init, layouts.ADAM, 3, None, place)
    expected = jax.jit(lambda key: init_state(init(key), layouts.ADAM))(jax.random.key(3))
    tiny.assert_same_bits(state, expected)
    shardings = layout.state_shardings(state, place)
    for array, sharding in zip(jax.tree.leaves(state), jax.tree.leaves(shardings), strict=True):
        assert array.sharding == sharding
