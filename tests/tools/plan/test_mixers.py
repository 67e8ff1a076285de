"""What a token mixer sends between devices that share the rows of a batch."""

import jax
import jax.numpy as jnp
import pytest
from conformance import test_mixers
from helpers import tiny
from jax.sharding import NamedSharding, PartitionSpec

from transformer.tools.plan import program


@pytest.mark.slow
@test_mixers.cases()
def test_a_gradient_is_summed_over_devices_once(name):
    """And not at each of the positions of a loop."""
    mixer, params = test_mixers.mixer_of(name), test_mixers.params_of(name)
    row = test_mixers.row(test_mixers.TEXTS)
    x, view = jax.tree.map(lambda a: jnp.broadcast_to(a, (8, *a.shape[1:])), row)

    def loss(params, x, view):
        return (mixer.apply({"params": params}, x, view, train=False) ** 2).sum()

    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.device_put((x, view), NamedSharding(mesh, PartitionSpec("data")))
    params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    text = tiny.jit(jax.grad(loss)).lower(params, *rows).compile().as_text()
    sums = sum(x.count for x in program.executions(text) if x.instruction.op == "all-reduce")
    assert 0 < sums <= len(jax.tree.leaves(params))
