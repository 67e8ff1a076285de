"""The compiled step: rows of a batch go to their devices, each device draws its own numbers, and
one program serves the first state and a restored one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import checkpoints_of
from helpers.layouts import ADAM, batch, first_state, init, layout_of, model, step

from transformer.distributed import layout
from transformer.distributed.parallel_step import compile_step, make_any_process, shard_batch
from transformer.training.start import restore_or_init
from transformer.training.update import init_state, train_step


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


def numbers_drawn(step, seed):
    """Returns what the loss draws in a step: a number for each of 2 micro-batches on 4 devices."""
    drawn, mapped = [], layout_of("pmap", 4)

    def loss(params, batch, *, rng):
        jax.debug.callback(lambda x: drawn.append(float(x)), jax.random.uniform(rng))
        weight = batch["targets"].sum()
        return {"loss": params["w"] * weight, "weight": weight}

    options = {"optimizer": ADAM, "schedule": tiny.LEARNING_RATE, "seed": seed, "accumulate": 2}
    drawing = functools.partial(train_step, loss=loss, **options)
    state = init_state({"w": jnp.ones(())}, ADAM)._replace(step=jnp.int32(step))
    state = jax.device_put(state, layout.state_shardings(state, mapped))
    rows = tiny.place({"targets": np.ones(8, np.float32)}, mapped)
    jax.block_until_ready(compile_step(drawing, mapped, state)(state, rows))
    jax.effects_barrier()
    return drawn


def test_each_device_micro_batch_step_and_seed_has_its_own_random_numbers():
    """So that all drop other units; a step that is taken again drops the same."""
    first, again, of_step, of_seed = (numbers_drawn(*x) for x in ((3, 0), (3, 0), (4, 0), (3, 1)))
    assert sorted(first) == sorted(again)
    assert len({*first, *of_step, *of_seed}) == 3 * 8


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "mesh"), [("pmap", (8, 1, 1)), ("jit", (2, 2, 2))], ids=str)
def test_one_program_for_first_and_restored_state(strategy, mesh, tmp_path):
    """A first state with other shardings than the step's output would be compiled for again."""
    run_layout = layout_of(strategy, 8, mesh)
    places = [tiny.place(batch(t, 16), run_layout) for t in range(4)]
    checkpoints = checkpoints_of(tmp_path)
    state = restore_or_init(init(model()), ADAM, 0, checkpoints, run_layout)
    update = step(run_layout, state)
    compiled, counts = [], []

    def listen(event, seconds, **about):  # for the rest of the process
        if event.endswith("backend_compile_duration"):
            compiled.append(about.get("fun_name"))

    def advance(state, t):
        compiled.clear()
        state, _ = update(state, places[t])
        counts.append(len(compiled))
        return state

    jax.monitoring.register_event_duration_secs_listener(listen)
    for t in range(3):
        state = advance(state, t)
    checkpoints.save(3, *layout.to_save(state, run_layout).saved)
    checkpoints.close()
    checkpoints = checkpoints_of(tmp_path)
    restored = restore_or_init(init(model()), ADAM, 0, checkpoints, run_layout)
    checkpoints.close()
    assert int(restored.step) == 3
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
