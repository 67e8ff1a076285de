"""A first state has the bits of one program on one device."""

import pytest
from helpers import layouts
from helpers.cases import slow_but


@pytest.mark.parametrize(
    ("strategy", "mesh"),
    slow_but([("pmap", (1, 1, 1)), ("pmap", (8, 1, 1)), ("jit", (2, 2, 2))], ("jit", (2, 2, 2))),
)
def test_a_state_is_that_of_one_program_on_one_device(strategy, mesh):
    layouts.assert_first_state_is_that_of_one_program(layouts.model(), strategy, mesh)
