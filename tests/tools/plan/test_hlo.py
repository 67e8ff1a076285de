"""A compiled program's instructions, and how often each runs."""

import jax
import jax.numpy as jnp
import pytest

from transformer.tools.plan import hlo

# A loop in a loop, of three and five iterations, as a TPU's program has it, and a fusion in it.
PROGRAM = """
HloModule step, is_scheduled=true

%fused (param_0: f32[8]) -> f32[8] {
  %param_0 = f32[8]{0:T(128)} parameter(0)
  ROOT %negate.2 = f32[8]{0:T(128)} negate(%param_0)
}

%five (counters: (s32[], f32[8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(5), metadata={op_name="jit(step)/while"}
  %counter = s32[]{:T(128)} get-tuple-element(%counters), index=0
  ROOT %less = pred[]{:T(512)} compare(%counter, %limit), direction=LT
}

%inner (carry: (s32[], f32[8])) -> (s32[], f32[8]) {
  ROOT %fusion.1 = f32[8]{0:T(128)S(1)} fusion(%x), kind=kLoop, calls=%fused
}

%outer (carry: (s32[], f32[8])) -> (s32[], f32[8]) {
  ROOT %while.1 = (s32[], f32[8]{0}) while(%carry), condition=%five, body=%inner
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %while.2 = (s32[], f32[8]{0}) while(%t), condition=%unknown, body=%outer, TRIPS
  ROOT %add.1 = f32[8]{0:T(128)} add(%p, %get)
}
"""


def counts(program):
    return {run.instruction.name: run[1:] for run in hlo.runs(program)}


def test_what_is_in_loops_runs_as_often_as_they_do(caplog):
    counted = counts(PROGRAM.replace("TRIPS", 'backend_config={"known_trip_count":{"n":"3"}}'))
    assert counted["add.1"] == counted["while.2"] == (1, False)
    assert counted["while.1"] == (3, False)
    assert counted["fusion.1"] == (15, False)
    assert counted["negate.2"] == (15, True)
    assert not caplog.messages
    assert counts(PROGRAM.replace("TRIPS", "x={}"))["fusion.1"] == (5, False)
    [warning] = caplog.messages
    assert "loop while.2 of the program is counted once: its length is unknown" in warning


def test_operands_and_arrays_are_read():
    [add] = [run.instruction for run in hlo.runs(PROGRAM) if run.instruction.op == "add"]
    assert add.operands == ["p", "get"]
    shape = "(s32[]{:T(128)}, /*index=1*/bf16[4,8]{1,0:T(8,128)(2,1)S(1)}, pred[3])"
    assert hlo.arrays(shape) == [hlo.Array(4, False), hlo.Array(64, True), hlo.Array(3, False)]


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(AssertionError, match="not the text of an HLO module"):
        list(hlo.runs("HloModule step"))


def test_this_xlas_programs_are_read():
    step = lambda x: jax.lax.fori_loop(0, 7, lambda i, x: jnp.tanh(x @ x), x)
    program = jax.jit(step).lower(jnp.ones((64, 64))).compile().as_text()
    of_tanh = [run for run in hlo.runs(program) if "tanh" in run.instruction.name]
    assert of_tanh
    assert {run.count for run in of_tanh} == {7}
