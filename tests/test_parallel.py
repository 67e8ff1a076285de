"""Eight devices, mapped or global, in one part or in several, train as one device does."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from transformer import checkpoint, loss, optimizer, parallel, train

LEARNING_RATE = functools.partial(
    optimizer.inverse_square_root, d_model=16, warmup_steps=4, factor=1.0
)
# With the paper's epsilon, a gradient that is 0 but for rounding would be blown up to a whole step.
ADAM = optimizer.adam(LEARNING_RATE, beta1=0.9, beta2=0.98, epsilon=1e-3, clip_norm=0.0)
SMOOTHING = {"label_smoothing": 0.1, "smoothed_over": "all_classes"}
STEPS = 4
DROPPING = {"dropout_rate": 0.5}


@functools.cache
def model(**changes):
    return tiny.model(num_layers=1, **changes)


def batch(seed, num_rows, rows_per_device=2):
    """Rows that hold very different numbers of tokens on each of eight devices: one has none."""
    random = np.random.default_rng(seed)
    rows = []
    for row in range(16):
        count = (row // rows_per_device) % 4
        rows.append(tiny.pairs(random.integers(1, 1 + 2 * count, (count, 2)).tolist(), seed=row))
    return tiny.batch([*rows, *[[]] * (num_rows - len(rows))], 18, 20)


def step(strategy, num_devices, accumulate=1, model=model()):  # noqa: B008
    """The compiled step, and the mesh it is compiled for."""
    mesh = parallel.data_mesh(num_devices)
    update = functools.partial(
        train.train_step,
        model=model,
        adam=ADAM,
        learning_rate=LEARNING_RATE,
        seed=0,
        accumulate=accumulate,
        loss_blocks=num_devices,  # one for one device, more for more
        smoothing=SMOOTHING,
    )
    return parallel.compile_step(update, strategy, mesh), mesh


def first_state(mesh, model=model()):  # noqa: B008
    parameters = tiny.parameters(model, batch(0, 16)["inputs"])
    state = train.TrainState(jnp.int32(0), parameters, ADAM.init(parameters))
    return jax.device_put(state, parallel.replicated(mesh))


def run(strategy, num_devices, accumulate=1, num_rows=16):
    """The sums of a few steps, and the parameters after them."""
    update, mesh = step(strategy, num_devices, accumulate)
    state, curve = first_state(mesh), []
    for t in range(STEPS):
        rows = parallel.padded_rows(num_rows, mesh, accumulate)
        state, sums = update(state, parallel.place(batch(t, rows), strategy, mesh))
        curve.append({name: float(value) for name, value in sums.items()})
    assert int(state.step) == STEPS
    return curve, jax.tree.map(np.asarray, parallel.on_one_device(state.parameters))


@pytest.fixture(scope="module")
def alone():
    """What one device does, which XLA's own reduction knows nothing of."""
    return run("jit", 1)


def assert_same_run(found, expected):
    for sums, others in zip(found[0], expected[0], strict=True):
        assert sums.keys() == others.keys()
        assert sums["tokens"] == others["tokens"]
        for name in sums:
            np.testing.assert_allclose(sums[name], others[name], rtol=1e-5)
    assert jax.tree.structure(found[1]) == jax.tree.structure(expected[1])
    for x, y in zip(jax.tree.leaves(found[1]), jax.tree.leaves(expected[1]), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


def test_the_curve_is_a_curve(alone):
    """Devices hold different numbers of tokens, every batch is another, and parameters move."""
    shares = batch(0, 16)["weights"].reshape(8, -1).sum(axis=1)
    assert len(set(shares.tolist())) >= 5
    assert shares.min() == 0
    losses = [sums["loss"] / sums["tokens"] for sums in alone[0]]
    assert min(abs(a - b) for a, b in itertools.pairwise(losses)) > 1e-3
    before = first_state(parallel.data_mesh(1)).parameters
    moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), before, alone[1])
    assert min(jax.tree.leaves(moved)) > 1e-3


@pytest.mark.parametrize(
    ("strategy", "num_devices", "accumulate"),
    [
        *[("pmap", 1, 1), ("pmap", 8, 1), ("jit", 8, 1)],
        *[("pmap", 8, 2), ("jit", 8, 2), ("pmap", 8, 4), ("jit", 8, 4), ("jit", 1, 4)],
    ],
)
def test_trains_as_one_device(alone, strategy, num_devices, accumulate):
    assert_same_run(run(strategy, num_devices, accumulate), alone)


@pytest.mark.parametrize("strategy", parallel.STRATEGIES)
def test_empty_rows_change_nothing(alone, strategy):
    assert_same_run(run(strategy, 8, num_rows=24), alone)


# Random numbers


def loss_of_copies(num_devices, accumulate, copies):
    """With dropout, the loss of a batch that has the same two rows `copies` times, a copy: the same
    for any number of them (as it is without dropout) if all drop the same units."""
    rows = [tiny.pairs([(5, 4), (3, 6)], seed=3), tiny.pairs([(7, 9)], seed=4)]
    update, mesh = step("pmap", num_devices, accumulate, model(**DROPPING))
    # Every device's rows are dealt out to the parts in turn: each part gets both.
    each = np.repeat(np.arange(2), copies // num_devices).tolist() * num_devices
    placed = parallel.place(tiny.batch([rows[i] for i in each], 18, 20), "pmap", mesh)
    _, sums = update(first_state(mesh, model(**DROPPING)), placed)
    return float(sums["loss"]) / copies


def test_devices_drop_different_units():
    """Device 0 of one and of eight drops the same; the seven others drop other units."""
    one, eight = loss_of_copies(1, 1, 1), loss_of_copies(8, 1, 8)
    assert abs(eight - one) > 1e-3 * one


def test_parts_drop_different_units():
    two, four = loss_of_copies(1, 2, 2), loss_of_copies(1, 4, 4)
    assert abs(four - two) > 1e-3 * two


def test_every_device_has_a_mask_of_its_own():
    rows = tiny.unpacked(tiny.pairs())
    dropping = model(**DROPPING)
    parameters = tiny.parameters(dropping, rows["inputs"])

    @functools.partial(jax.pmap, axis_name=parallel.AXIS)
    def losses(part):
        rng = parallel.random_per_device(jax.random.key(0), parallel.AXIS)
        logits = dropping.apply(
            {"params": parameters}, **part["inputs"], train=True, rngs={"dropout": rng}
        )
        return loss.cross_entropy(logits, part["targets"], part["weights"], **SMOOTHING)["loss"]

    found = np.asarray(losses(jax.tree.map(lambda x: np.stack([x] * 8), rows)))
    assert len(np.unique(found.round(4))) == 8


def test_steps_and_seeds_drop_different_units():
    update, mesh = step("pmap", 1, model=model(**DROPPING))
    placed = parallel.place(batch(0, 16), "pmap", mesh)
    start = lambda: first_state(mesh, model(**DROPPING))
    found = [float(update(start()._replace(step=n), placed)[1]["loss"]) for n in (0, 0, 1, 2)]
    assert found[0] == found[1]
    assert len(set(found)) == 3


# Compilations


@pytest.fixture(scope="module")
def compiled():
    """The names of what is being compiled, as it happens."""
    names = []

    def listen(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    return names


@pytest.mark.parametrize("strategy", parallel.STRATEGIES)
def test_one_program_for_first_and_restored_state(strategy, compiled, tmp_path):
    """A first state that is not placed as the step returns it would be compiled for apart."""
    update, mesh = step(strategy, 8)
    whole = parallel.replicated(mesh)
    places = [parallel.place(batch(t, 16), strategy, mesh) for t in range(4)]
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=1, every=1, vocabulary="")
    state = train.first_state(model(), ADAM, 0, checkpoints, whole)
    counts = []

    def advance(state, t):
        compiled.clear()
        state, _ = update(state, places[t])
        counts.append(len(compiled))
        return state

    for t in range(3):
        state = advance(state, t)
    checkpoints.save(3, state.parameters, state.optimizer_state)
    checkpoints.close()
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=1, every=1, vocabulary="")
    restored = train.first_state(model(), ADAM, 0, checkpoints, whole)
    checkpoints.close()
    assert int(restored.step) == 3
    for x, y in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert (x.sharding, x.dtype) == (y.sharding, y.dtype)
        np.testing.assert_array_equal(x, y)
    advance(restored, 3)
    assert counts[0] >= 1
    assert counts[1:] == [0, 0, 0]


# Rows


@pytest.mark.parametrize("num_devices", [1, 2, 8])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_rows_are_padded_to_the_next_multiple(num_devices, accumulate):
    mesh = parallel.data_mesh(num_devices)
    for rows in range(1, 60):
        padded = parallel.padded_rows(rows, mesh, accumulate)
        assert padded % (num_devices * accumulate) == 0
        assert rows <= padded < rows + num_devices * accumulate


def test_parts_take_every_row_once_and_from_every_device():
    rows = np.arange(24)
    parts = np.asarray(parallel.micro_batches(rows, 3))
    assert parts.shape == (3, 8)
    assert sorted(parts.reshape(-1)) == rows.tolist()
    devices = np.repeat(np.arange(8), 3)
    for part in parts:
        assert devices[part].tolist() == list(range(8))


def test_unknown_strategy():
    with pytest.raises(ValueError, match=r"config.parallel.strategy is .*found 'ddp'"):
        step("ddp", 1)
