"""A compiled program's instructions, and how often each runs."""

import jax
import jax.numpy as jnp
import pytest
from tools.plan.programs import PROGRAM, TRIPS

from transformer.tools.plan import program


def counts(program):
    return {run.instruction.name: run[1:] for run in program.runs(program)}


def test_what_is_in_loops_runs_as_often_as_they_do(caplog):
    counted = counts(PROGRAM)
    assert counted["taken"] == counted["while.2"] == (1, False)
    assert counted["gather.1"] == (1, True)
    assert counted["while.1"] == (3, False)
    assert counted["fusion.2"] == (12, False)
    assert counted["concatenate.1"] == (12, True)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("known", "unknown", "loop", "count"),
    [(TRIPS, "", "while.2", 4), ("direction=LT", "direction=NE", "while.1", 3)],
)
def test_a_loop_of_unknown_length_is_counted_once_and_said(known, unknown, loop, count, caplog):
    assert counts(PROGRAM.replace(known, unknown))["fusion.2"] == (count, False)
    [warning] = caplog.messages
    assert f"the loop {loop} of the program is counted once" in warning


def test_operands_and_arrays_are_read():
    [taken] = [run.instruction for run in program.runs(PROGRAM) if run.instruction.name == "taken"]
    assert (taken.operands, taken.called) == (["table", "ids"], ["rows"])
    shape = "(s32[]{:T(128)}, /*index=1*/bf16[4,8]{1,0:T(8,128)(2,1)S(1)}, pred[3])"
    assert program.arrays(shape) == [
        program.Array(4, False),
        program.Array(64, True),
        program.Array(3, False),
    ]


def test_this_xlas_programs_are_read():
    step = lambda x: jax.lax.fori_loop(0, 7, lambda i, x: jnp.tanh(x @ x), x)
    program = jax.jit(step).lower(jnp.ones((64, 64))).compile().as_text()
    counted = [run.count for run in program.runs(program) if "tanh" in run.instruction.name]
    assert {*counted} == {7}
