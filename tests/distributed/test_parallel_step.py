"""The compiled step: rows of a batch go to their devices, each device draws its own dropout mask,
and one program serves the first state and a restored one."""

import functools

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.layouts import (
    ADAM,
    DROPOUT,
    batch,
    first_state,
    init,
    layout_of,
    model,
    open_checkpoints,
    step,
)

from transformer.distributed import layout
from transformer.distributed.parallel_step import make_any_process, random_per_device, shard_batch
from transformer.tasks.losses import cross_entropy
from transformer.training.start import restore_or_init, save


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
    mapped = shard_batch(lambda start, stop: np.arange(start, stop), 16, layout_of("pmap", 8))
    np.testing.assert_array_equal(mapped, np.arange(16).reshape(8, 2))


@pytest.mark.parametrize("strategy", ["pmap", "jit"])
def test_a_step_finds_its_batch_on_the_devices(strategy):
    run_layout = layout_of(strategy, 8)
    update = step(run_layout, state := first_state(run_layout), 1)
    rows = tiny.place(tiny.batch([tiny.pairs()] * 8, 18, 20), run_layout)
    state, _ = update(state, rows)
    with jax.transfer_guard("disallow"):
        update(state, rows)


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
def test_micro_batches_drop_different_units():
    two, four = loss_of_copies(1, 2, 2), loss_of_copies(1, 4, 4)
    assert abs(four - two) > 1e-3 * two


def test_every_device_draws_another_dropout_mask():
    rows = tiny.unpacked(tiny.pairs())
    model_with_dropout = model(**DROPOUT)
    parameters = tiny.parameters(model_with_dropout, rows["inputs"])

    @functools.partial(jax.pmap, axis_name=layout.PMAP_AXIS)
    def losses(part):
        rng = random_per_device(jax.random.key(0), layout.PMAP_AXIS)
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
    state = restore_or_init(init(model()), ADAM, 0, checkpoints, run_layout)
    update = step(run_layout, state)
    counts = []

    def advance(state, t):
        compiled.clear()
        state, _ = update(state, places[t])
        counts.append(len(compiled))
        return state

    for t in range(3):
        state = advance(state, t)
    save(checkpoints, 3, state, run_layout)
    checkpoints.close()
    checkpoints = open_checkpoints(tmp_path)
    restored = restore_or_init(init(model()), ADAM, 0, checkpoints, run_layout)
    checkpoints.close()
    assert int(restored.step) == 3
    for x, y in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert (x.sharding, x.dtype) == (y.sharding, y.dtype)
        np.testing.assert_array_equal(x, y)
    advance(restored, 3)
    assert counts[0] >= 1
    assert counts[1:] == [0, 0, 0]


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_hear_of_a_flag_two_steps_later(processes, monkeypatch):
    """One process hears of its own flag at once: it has nobody to wait for."""
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    any_process = make_any_process(layout_of("jit", 8))
    answers = [any_process(step == 3) for step in range(8)]
    assert answers == [step == (3 if processes == 1 else 5) for step in range(8)]
