"""Params of training are replicated on the devices, and rows are sharded over the same devices."""

import jax
import numpy as np
import pytest
from helpers.layouts import layout_of
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed import inference

PARAMS = {"kernel": np.arange(32.0).reshape(8, 4), "bias": np.arange(4.0)}
LAYOUTS = [("pmap", (8, 1, 1)), ("jit", (8, 1, 1)), ("jit", (2, 4, 1)), ("jit", (1, 1, 8))]


def in_training(strategy, mesh):
    """Returns a layout, and PARAMS on it, the kernel sharded by its rows and columns."""
    eight = layout_of(strategy, 8, mesh)
    sharded = NamedSharding(eight.mesh, PartitionSpec("fsdp", None))
    return eight, jax.device_put(PARAMS, {"kernel": sharded, "bias": eight.replicated})


@pytest.mark.parametrize(("strategy", "mesh"), LAYOUTS, ids=str)
def test_gathered_params_are_whole_on_every_device(strategy, mesh):
    eight, params = in_training(strategy, mesh)
    gathered = inference.gather_params(params, eight)
    assert inference.num_devices(gathered) == 8
    for name, expected in PARAMS.items():
        for shard in gathered[name].addressable_shards:
            np.testing.assert_array_equal(shard.data, expected)


def test_rows_are_sharded_over_the_devices_of_the_params():
    gathered = inference.gather_params(*reversed(in_training("jit", (2, 4, 1))))
    rows = inference.shard_rows({"x": np.arange(48).reshape(16, 3), "count": np.int32(5)}, gathered)
    for shard in rows["x"].addressable_shards:
        assert shard.data.shape == (2, 3)
    assert len({shard.device for shard in rows["x"].addressable_shards}) == 8
    np.testing.assert_array_equal(rows["x"], np.arange(48).reshape(16, 3))
    assert rows["count"].sharding.is_fully_replicated
    assert jax.jit(lambda x, bias: x.sum() + bias.sum())(rows["x"], gathered["bias"]) == 1134


@pytest.mark.parametrize("params", [PARAMS, jax.tree.map(jax.numpy.asarray, PARAMS)])
def test_rows_stay_as_they_are_for_params_of_one_device(params):
    rows = np.arange(3)  # no multiple of anything
    assert inference.num_devices(params) == 1
    assert inference.shard_rows(rows, params) is rows
