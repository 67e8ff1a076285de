"""Eight devices train as one does, under either strategy, on any mesh, with any accumulation."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.cases import slow_but
from helpers.checkpoints import checkpoints_of
from helpers.layouts import ADAM, batch, first_state, init, layout_of, model, step
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed import layout
from transformer.distributed.layout import gather_params
from transformer.distributed.parallel_step import rows_for_devices
from transformer.training.start import restore_or_init
from transformer.training.update import init_state

STEPS = 30


def run(layout, accumulate=1, **changes):
    """Returns the metrics of every step, and the params after the last."""
    state, curve = first_state(layout, **changes), []
    update = step(layout, state, accumulate, **changes)
    for t in range(STEPS):
        rows = rows_for_devices(16, layout.num_row_shards * accumulate)
        state, sums = update(state, tiny.place(batch(t, rows), layout))
        curve.append({name: float(value) for name, value in sums.items()})
    assert int(state.step) == STEPS
    return curve, jax.tree.map(np.asarray, gather_params(state.params, layout))


# Sizes that eight devices divide; the plain ones, a vocabulary of 13 and 2 heads, are replicated.
DIVISIBLE = {"source_vocab_size": 16, "target_vocab_size": 16, "num_heads": 8}
DIVISIBLE |= {"attention_bias": True}
RATES = ("dropout_rate", "attention_dropout_rate", "activation_dropout_rate")
MODELS = {
    "plain": {},
    # A global program draws the same on any mesh.
    "dropout": {**DIVISIBLE, **dict.fromkeys(RATES, 0.1)},
    # Shaw's tables are gathered from, and summed into, on each device; experts are sharded.
    "parts": DIVISIBLE | dict(positions="shaw(max_distance=3)", feed_forward="experts(count=4)"),
}


@functools.cache
def one_device(name):
    """The reference: a run on one device, without any collective."""
    return run(layout_of("jit", 1), **MODELS[name])


def assert_same_run(actual, expected):
    (curve, params), (expected_curve, expected_params) = actual, expected
    for sums, expected_sums in zip(curve, expected_curve, strict=True):
        assert sums.keys() == expected_sums.keys()
        assert sums["weight"] == expected_sums["weight"]
        for name in sums:
            np.testing.assert_allclose(sums[name], expected_sums[name], rtol=1e-5)
    assert jax.tree.structure(params) == jax.tree.structure(expected_params)
    leaves = jax.tree.leaves_with_path(params)
    for (path, x), y in zip(leaves, jax.tree.leaves(expected_params), strict=True):
        assert x.shape == y.shape
        # A key's bias adds the same to all of a query's scores, which softmax ignores: its gradient
        # is rounding error, which Adam scales to full steps.
        if [key.key for key in path[-2:]] != ["key", "bias"]:
            np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5, err_msg=str(path))


@pytest.mark.parametrize("name", ["plain", "dropout"])
def test_one_device_learns(name):
    """From batches that give devices different numbers of tokens, one of them none: the loss falls,
    and every parameter moves by a thousand times the tolerance."""
    shares = batch(0, 16)["weights"].reshape(8, -1).sum(axis=1)
    assert len(set(shares.tolist())) >= 5
    assert shares.min() == 0
    curve, after = one_device(name)
    losses = [sums["loss"] / sums["weight"] for sums in curve]
    assert min(abs(a - b) for a, b in itertools.pairwise(losses)) > 1e-3  # batches differ
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    before = first_state(layout_of("jit", 1), **MODELS[name]).params
    moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), before, after)
    assert min(jax.tree.leaves(moved)) > 1e-2


# (data, fsdp, tensor): each axis alone, and all three.
MESHES = [(8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where", "options"),
    [
        ("plain", ("pmap", 1), {"accumulate": 4}),
        ("plain", ("pmap", 8), {}),
        ("plain", ("pmap", 8), {"accumulate": 4}),  # of 32 rows: empty ones change nothing
        ("plain", ("jit", 8, (1, 1, 8)), {}),
        *(("dropout", ("jit", 8, mesh), {}) for mesh in MESHES),
        ("parts", ("jit", 8, (2, 2, 2)), {"accumulate": 2}),
    ],
    ids=str,
)
def test_trains_as_one_device(name, where, options):
    assert_same_run(run(layout_of(*where), **options, **MODELS[name]), one_device(name))


def test_experts_are_on_the_devices_of_the_axis_tensor():
    params = first_state(layout_of("jit", 8, (2, 2, 2)), **MODELS["parts"]).params
    kernels = params["encoder"]["layers_0"]["feed_forward"]["experts"]
    for name, shape in (("inner", (2, 8, 24)), ("outer", (2, 12, 16))):
        assert kernels[name]["kernel"].addressable_shards[0].data.shape == shape


def megabytes(tree):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(1, 8, 1), (2, 2, 2)], ids=str)
def test_memory_falls_as_the_state_is_sharded(mesh):
    """By the compiled program's memory analysis; norms and outputs' biases stay replicated."""
    sizes = {"d_model": 128, "d_ff": 512, "key_size": 16, "value_size": 16}
    changes = DIVISIBLE | sizes | {"source_vocab_size": 1024, "target_vocab_size": 1024}
    first = lambda key: init_state(init(model(**changes))(key), ADAM)
    eight, rows = layout_of("jit", 8, mesh), batch(0, 64)
    state = layout.to_restore(jax.eval_shape(first, jax.random.key(0)), eight)
    memory = step(eight, state, **changes).lower(state, rows).compile().memory_analysis()
    data, fsdp, tensor = mesh
    expected = megabytes(state) / (fsdp * tensor) + megabytes(rows) / (data * fsdp)
    assert megabytes(state) > 5
    assert expected <= memory.argument_size_in_bytes / 1e6 < 1.05 * expected
    assert layout.bytes_per_device(state) / 1e6 == pytest.approx(
        memory.argument_size_in_bytes / 1e6 - megabytes(rows) / (data * fsdp), abs=1e-3
    )


@pytest.mark.parametrize(
    ("strategy", "mesh", "words"),
    [
        ("jit", (2, 2, 1), r"mesh=\(2, 2, 1\) does not match the number of devices, 8:"),
        ("jit", (0, 3, 1), r"does not match the number of devices, 8:"),
        ("jit", (8, 1), r"must be \(data, fsdp, tensor\), such as \(0, 1, 1\), found \(8, 1\)"),
        ("jit", (8, 0, 1), r"found \(8, 0, 1\)"),
        ("jit", (-8, -1, 1), r"found \(-8, -1, 1\)"),
        ("pmap", (0, 8, 1), r"shards the state, which config.parallel.strategy='pmap' cannot do"),
    ],
)
def test_invalid_layouts_are_refused(strategy, mesh, words):
    with pytest.raises(ValueError, match=words):
        layout.make_layout(strategy, mesh)


def test_mapped_devices_are_in_the_order_of_their_processes():
    """pmap requires it; jax.devices() of a TPU pod is in another order."""
    devices = layout.make_layout("pmap", devices=jax.devices()[::-1]).mesh.devices
    assert list(devices.flat) == jax.devices()


@pytest.mark.parametrize(
    ("strategy", "mesh"),
    slow_but([("pmap", (8, 1, 1)), ("jit", (2, 2, 2))], ("jit", (2, 2, 2))),
)
def test_a_state_is_that_of_one_program_on_one_device(strategy, mesh):
    """To the bit, and sharded as the layout says, though many programs make it."""
    place, first = layout_of(strategy, math.prod(mesh), mesh), init(model())
    state = restore_or_init(first, ADAM, 3, None, place)
    expected = jax.jit(lambda key: init_state(first(key), ADAM))(jax.random.key(3))
    tiny.assert_same_bits(state, expected)
    shardings = layout.state_shardings(state, place)
    for array, sharding in zip(jax.tree.leaves(state), jax.tree.leaves(shardings), strict=True):
        assert array.sharding == sharding


# Mapped and global; one device and eight; two meshes.
SAVED = [("pmap", 8), ("pmap", 2), ("jit", 1), ("jit", 8, (1, 8, 1)), ("jit", 8, (2, 2, 2))]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SAVED)))
def test_checkpoints_move_between_layouts(number, tmp_path):
    """Each is saved once, and restored to once; no array has the values of another."""
    before, after = SAVED[number - 1], SAVED[number]
    saved_layout = layout_of(*before)
    arrays, structure = jax.tree.flatten(first_state(saved_layout, **DIVISIBLE))
    state = structure.unflatten(x + i for i, x in enumerate(arrays, start=3))
    checkpoints = checkpoints_of(tmp_path)
    checkpoints.save(3, *layout.to_save(state, saved_layout).saved)
    checkpoints.close()
    run_layout, checkpoints = layout_of(*after), checkpoints_of(tmp_path)
    restored = restore_or_init(init(model(**DIVISIBLE)), ADAM, 0, checkpoints, run_layout)
    checkpoints.close()
    expected = layout.state_shardings(state, run_layout)
    for x, y, sharding in zip(*map(jax.tree.leaves, (restored, state, expected)), strict=True):
        assert x.sharding == sharding
        np.testing.assert_array_equal(x, y)


# Inference: params on the devices of a process, and rows sharded over the same.

PARAMS = {"kernel": np.arange(32.0).reshape(8, 4), "bias": np.arange(4.0)}
LAYOUTS = [("pmap", (8, 1, 1)), ("jit", (8, 1, 1)), ("jit", (0, 4, 1)), ("jit", (1, 1, 8))]


def in_training(strategy, mesh):
    """Returns a layout, and PARAMS on it, the kernel sharded by its rows and columns."""
    eight = layout_of(strategy, 8, mesh)
    sharded = NamedSharding(eight.mesh, PartitionSpec("fsdp", None))
    return eight, jax.device_put(PARAMS, {"kernel": sharded, "bias": eight.replicated})


@pytest.mark.parametrize(("strategy", "mesh"), LAYOUTS, ids=str)
def test_gathered_params_are_whole_on_every_device(strategy, mesh):
    eight, params = in_training(strategy, mesh)
    gathered = layout.gather_params(params, eight)
    assert layout.num_devices(gathered) == 8
    for name, expected in PARAMS.items():
        for shard in gathered[name].addressable_shards:
            np.testing.assert_array_equal(shard.data, expected)


def test_rows_are_sharded_over_the_devices_of_the_params():
    gathered = layout.gather_params(*reversed(in_training("jit", (2, 4, 1))))
    rows = layout.shard_rows({"x": np.arange(48).reshape(16, 3), "count": np.int32(5)}, gathered)
    for shard in rows["x"].addressable_shards:
        assert shard.data.shape == (2, 3)
    assert len({shard.device for shard in rows["x"].addressable_shards}) == 8
    np.testing.assert_array_equal(rows["x"], np.arange(48).reshape(16, 3))
    assert rows["count"].sharding.is_fully_replicated
    assert jax.jit(lambda x, bias: x.sum() + bias.sum())(rows["x"], gathered["bias"]) == 1134


@pytest.mark.parametrize("params", [PARAMS, jax.tree.map(jax.numpy.asarray, PARAMS)])
def test_rows_stay_as_they_are_for_params_of_one_device(params):
    rows = np.arange(3)  # no multiple of anything
    assert layout.num_devices(params) == 1
    assert layout.shard_rows(rows, params) is rows
