"""Eight devices train as one does, under either strategy, on any mesh, with any accumulation."""

import functools
import itertools

import jax
import numpy as np
import pytest
from helpers import tiny

from transformer.checkpoints import manager
from transformer.distributed import inference, layout
from transformer.distributed.step import (
    micro_batches,
    random_per_device,
    rows_for_devices,
    shard_batch,
)
from transformer.tasks.losses import cross_entropy
from transformer.training import loop, update

ADAM = tiny.adam()
STEPS = 50
DROPOUT = {"dropout_rate": 0.5}


@functools.cache
def model(**changes):
    return tiny.model(num_layers=1, **changes)


def batch(seed, num_rows, rows_per_device=2):
    """A batch whose rows have very different numbers of tokens on eight devices: one has none."""
    random = np.random.default_rng(seed)
    rows = []
    for row in range(16):
        count = (row // rows_per_device) % 4
        rows.append(tiny.pairs(random.integers(1, 1 + 2 * count, (count, 2)).tolist(), seed=row))
    return tiny.batch([*rows, *[[]] * (num_rows - len(rows))], 18, 20)


def layout_of(strategy, num_devices, mesh=(0, 1, 1)):
    return layout.make_layout(strategy, mesh, num_devices)


def init(model):
    """Returns a function from a key to a model's params."""
    return lambda rng: model.init(rng, **batch(0, 16)["inputs"], train=False)["params"]


def open_checkpoints(folder):
    """Opens a folder's checkpoints."""
    return manager.Checkpoints(folder, keep=1, every=1, identity={}, best_is="highest")


def step(layout, state, accumulate=1, **changes):
    return tiny.train_step(layout, state, model(**changes), ADAM, accumulate)


def first_state(layout, **changes):
    return tiny.first_state(layout, model(**changes), batch(0, 16)["inputs"], ADAM)


def run(layout, accumulate=1, num_rows=16, **changes):
    """Returns the metrics of every step, and the params after the last."""
    state, curve = first_state(layout, **changes), []
    update = step(layout, state, accumulate, **changes)
    for t in range(STEPS):
        rows = rows_for_devices(num_rows, layout.num_row_shards * accumulate)
        state, sums = update(state, tiny.place(batch(t, rows), layout))
        curve.append({name: float(value) for name, value in sums.items()})
    assert int(state.step) == STEPS
    return curve, jax.tree.map(np.asarray, inference.gather_params(state.params, layout))


@pytest.fixture(scope="module")
def one_device():
    """The reference: a run on one device, without any collective."""
    return run(layout_of("jit", 1))


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


def test_devices_hold_different_numbers_of_tokens():
    shares = batch(0, 16)["weights"].reshape(8, -1).sum(axis=1)
    assert len(set(shares.tolist())) >= 5
    assert shares.min() == 0


def assert_learns(run, **changes):
    """The loss falls, and every parameter moves by a thousand times the tolerance."""
    curve, after = run
    losses = [sums["loss"] / sums["weight"] for sums in curve]
    assert len(losses) == 50
    assert min(abs(a - b) for a, b in itertools.pairwise(losses)) > 1e-3  # batches differ
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    before = first_state(layout_of("jit", 1), **changes).params
    moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), before, after)
    assert min(jax.tree.leaves(moved)) > 1e-2


def test_one_device_learns(one_device):
    assert_learns(one_device)


def test_one_device_with_dropout_learns(one_device_dropout):
    assert_learns(one_device_dropout, **DIVISIBLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "num_devices", "accumulate"),
    [
        *[("pmap", 1, 1), ("pmap", 8, 1), ("jit", 8, 1)],
        *[("pmap", 8, 2), ("jit", 8, 2), ("pmap", 8, 4), ("jit", 8, 4), ("jit", 1, 4)],
    ],
)
def test_trains_as_one_device(one_device, strategy, num_devices, accumulate):
    assert_same_run(run(layout_of(strategy, num_devices), accumulate), one_device)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", layout.STRATEGIES)
def test_empty_rows_change_nothing(one_device, strategy):
    assert_same_run(run(layout_of(strategy, 8), num_rows=24), one_device)


# Meshes

MESHES = [
    (data, fsdp, 8 // data // fsdp)
    for data in (1, 2, 4, 8)
    for fsdp in (1, 2, 4, 8)
    if data * fsdp <= 8
]
# Sizes that eight devices divide, with dropout: a global program draws the same on any mesh.
DIVISIBLE = {
    **{"source_vocab_size": 16, "target_vocab_size": 16, "num_heads": 8, "attention_bias": True},
    **{"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "activation_dropout_rate": 0.1},
}


@pytest.fixture(scope="module")
def one_device_dropout():
    return run(layout_of("jit", 1), **DIVISIBLE)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_every_mesh_trains_as_one_device(one_device_dropout, mesh):
    assert_same_run(run(layout_of("jit", 8, mesh), **DIVISIBLE), one_device_dropout)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(2, 2, 2), (1, 8, 1), (1, 1, 8)], ids=str)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_dimensions_that_a_mesh_does_not_divide_are_replicated(one_device, mesh, accumulate):
    """A vocabulary of 13, 2 heads."""
    assert_same_run(run(layout_of("jit", 8, mesh), accumulate), one_device)


@pytest.fixture(scope="module")
def abstract():
    """A function of a mesh: a larger model's step, its abstract state and a batch."""
    sizes = {"d_model": 128, "d_ff": 512, "key_size": 16, "value_size": 16}
    vocabulary = {"source_vocab_size": 1024, "target_vocab_size": 1024}
    changes = DIVISIBLE | sizes | vocabulary
    large, rows = model(**changes), batch(0, 64)

    def initial(rng):
        init = lambda rng: large.init(rng, **rows["inputs"], train=False)["params"]
        return update.init_state(init, ADAM, rng)

    shapes = jax.eval_shape(initial, jax.random.key(0))

    def on_mesh(mesh):
        eight = layout_of("jit", 8, mesh)
        state = layout.to_restore(shapes, eight)
        return step(eight, state, **changes), state, rows

    return on_mesh


def megabytes(tree):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2), (1, 2, 4)], ids=str)
def test_memory_falls_as_the_state_is_sharded(abstract, mesh):
    """By the compiled program's memory analysis; norms and biases stay replicated."""
    update, state, rows = abstract(mesh)
    memory = update.lower(state, rows).compile().memory_analysis()
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
        (
            "jit",
            (2, 2, 1),
            r"config.parallel.mesh=\(2, 2, 1\) does not match the number of devices, 8:",
        ),
        ("jit", (0, 3, 1), r"does not match the number of devices, 8:"),
        ("jit", (8, 1), r"is \(data, fsdp, tensor\), such as \(0, 1, 1\), found \(8, 1\)"),
        ("jit", (8, 0, 1), r"found \(8, 0, 1\)"),
        ("jit", (-8, -1, 1), r"found \(-8, -1, 1\)"),
        ("pmap", (0, 8, 1), r"shards the state, which config.parallel.strategy='pmap' cannot do"),
        ("ddp", (0, 1, 1), r"config.parallel.strategy is .*found 'ddp'"),
    ],
)
def test_invalid_layouts_are_refused(strategy, mesh, words):
    with pytest.raises(ValueError, match=words):
        layout.make_layout(strategy, mesh)


def test_mapped_devices_are_in_the_order_of_their_processes():
    """pmap requires it; jax.devices() of a TPU pod is in another order."""
    devices = layout.make_layout("pmap", devices=jax.devices()[::-1]).mesh.devices
    assert list(devices.flat) == jax.devices()


def test_the_data_axis_is_inferred():
    assert dict(layout_of("jit", 8, (0, 2, 1)).mesh.shape) == {"data": 4, "fsdp": 2, "tensor": 1}


# Random numbers


def loss_of_copies(num_devices, accumulate, copies):
    """Returns the loss a copy, with dropout, of a batch of `copies` copies of two rows.

    It does not depend on `copies` if all copies drop the same units.
    """
    rows = [tiny.pairs([(5, 4), (3, 6)], seed=3), tiny.pairs([(7, 9)], seed=4)]
    mapped = layout_of("pmap", num_devices)
    state = first_state(mapped, **DROPOUT)
    update = step(mapped, state, accumulate, **DROPOUT)
    # Micro-batches take a device's rows in turn: each gets both of the two rows.
    each = np.repeat(np.arange(2), copies // num_devices).tolist() * num_devices
    _, sums = update(state, tiny.place(tiny.batch([rows[i] for i in each], 18, 20), mapped))
    return float(sums["loss"]) / copies


@pytest.mark.slow
def test_devices_drop_different_units():
    """Device 0 drops the same units among eight as alone: the other seven make the difference."""
    one, eight = loss_of_copies(1, 1, 1), loss_of_copies(8, 1, 8)
    assert abs(eight - one) > 1e-3 * one


@pytest.mark.slow
def test_micro_batches_drop_different_units():
    two, four = loss_of_copies(1, 2, 2), loss_of_copies(1, 4, 4)
    assert abs(four - two) > 1e-3 * two


def test_every_device_draws_another_dropout_mask():
    rows = tiny.unpacked(tiny.pairs())
    model_with_dropout = model(**DROPOUT)
    parameters = tiny.parameters(model_with_dropout, rows["inputs"])

    @functools.partial(jax.pmap, axis_name=layout.AXIS)
    def losses(part):
        rng = random_per_device(jax.random.key(0), layout.AXIS)
        options = {"train": True, "rngs": {"dropout": rng}}
        logits = model_with_dropout.apply({"params": parameters}, **part["inputs"], **options)
        targets = part["targets"], part["weights"]
        return cross_entropy(logits, *targets, **tiny.SMOOTHING)["loss"]

    loss_of_device = np.asarray(losses(jax.tree.map(lambda x: np.stack([x] * 8), rows)))
    assert len(np.unique(loss_of_device.round(4))) == 8


@pytest.mark.slow
def test_steps_and_seeds_drop_different_units():
    mapped = layout_of("pmap", 1)
    start = lambda: first_state(mapped, **DROPOUT)
    update = step(mapped, start(), **DROPOUT)
    placed = tiny.place(batch(0, 16), mapped)
    losses = [float(update(start()._replace(step=n), placed)[1]["loss"]) for n in (0, 0, 1, 2)]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


# Compilations


@pytest.fixture(scope="module")
def compiled():
    """The names of the functions compiled so far: a list that grows as JAX compiles."""
    names = []

    def listen(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "mesh"), [("pmap", (8, 1, 1)), ("jit", (8, 1, 1)), ("jit", (2, 2, 2))], ids=str
)
def test_one_program_for_first_and_restored_state(strategy, mesh, compiled, tmp_path):
    """A first state with other shardings than the step's output would be compiled for again."""
    run_layout = layout_of(strategy, 8, mesh)
    places = [tiny.place(batch(t, 16), run_layout) for t in range(4)]
    checkpoints = open_checkpoints(tmp_path)
    state = loop.first_state(init(model()), ADAM, 0, checkpoints, run_layout)
    update = step(run_layout, state)
    counts = []

    def advance(state, t):
        compiled.clear()
        state, _ = update(state, places[t])
        counts.append(len(compiled))
        return state

    for t in range(3):
        state = advance(state, t)
    loop.save(checkpoints, 3, state, run_layout)
    checkpoints.close()
    checkpoints = open_checkpoints(tmp_path)
    restored = loop.first_state(init(model()), ADAM, 0, checkpoints, run_layout)
    checkpoints.close()
    assert int(restored.step) == 3
    for x, y in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert (x.sharding, x.dtype) == (y.sharding, y.dtype)
        np.testing.assert_array_equal(x, y)
    advance(restored, 3)
    assert counts[0] >= 1
    assert counts[1:] == [0, 0, 0]


# Checkpoints

LAYOUTS = [
    *[("pmap", 8, (8, 1, 1)), ("pmap", 2, (2, 1, 1)), ("jit", 1, (1, 1, 1))],
    *[("jit", 8, mesh) for mesh in ((8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2))],
]


@pytest.mark.slow
@pytest.mark.parametrize("before", LAYOUTS, ids=str)
def test_checkpoints_move_between_any_two_layouts(before, tmp_path):
    saved_layout = layout_of(*before)
    state = first_state(saved_layout, **DIVISIBLE)
    checkpoints = open_checkpoints(tmp_path)
    loop.save(checkpoints, 3, state, saved_layout)
    checkpoints.close()
    for after in LAYOUTS:
        run_layout = layout_of(*after)
        checkpoints = open_checkpoints(tmp_path)
        restored = loop.first_state(init(model(**DIVISIBLE)), ADAM, 0, checkpoints, run_layout)
        checkpoints.close()
        assert int(restored.step) == 3
        expected = layout.state_shardings(state, run_layout)
        for x, y, sharding in zip(*map(jax.tree.leaves, (restored, state, expected)), strict=True):
            assert x.sharding == sharding
            if x.ndim:
                np.testing.assert_array_equal(x, y)


# Rows


@pytest.mark.parametrize("num_devices", [1, 2, 8])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_rows_are_padded_to_the_next_multiple(num_devices, accumulate):
    run_layout = layout_of("jit", num_devices)
    for rows in range(1, 60):
        padded = rows_for_devices(rows, run_layout.num_row_shards * accumulate)
        assert padded % (num_devices * accumulate) == 0
        assert rows <= padded < rows + num_devices * accumulate


def test_micro_batches_take_every_row_once_and_from_every_device():
    rows = np.arange(24)
    parts = np.asarray(micro_batches(rows, 3))
    assert parts.shape == (3, 8)
    assert sorted(parts.reshape(-1)) == rows.tolist()
    devices = np.repeat(np.arange(8), 3)
    for part in parts:
        assert devices[part].tolist() == list(range(8))


@pytest.mark.parametrize("mesh", [(8, 1, 1), (2, 4, 1), (2, 2, 2), (1, 1, 8)], ids=str)
def test_devices_get_their_rows_of_the_global_batch(mesh):
    run_layout = layout_of("jit", 8, mesh)
    ranges = []

    def load(start, stop):
        ranges.append((start, stop))
        return {"x": np.arange(start, stop)[:, None] * np.ones(3)}

    placed = shard_batch(load, 16, run_layout)["x"]
    parts = 16 // run_layout.num_row_shards
    assert ranges == [(start, start + parts) for start in range(0, 16, parts)]
    np.testing.assert_array_equal(placed, np.arange(16)[:, None] * np.ones(3))
    assert {shard.data.shape for shard in placed.addressable_shards} == {(parts, 3)}


def test_mapped_devices_get_their_rows_of_the_global_batch():
    placed = shard_batch(lambda start, stop: np.arange(start, stop), 16, layout_of("pmap", 8))
    np.testing.assert_array_equal(placed, np.arange(16).reshape(8, 2))
