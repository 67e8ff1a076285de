"""What an accelerator's program moves through the memory and runs, and a TPU's estimate of it."""

import jax
import jax.numpy as jnp
import pytest
from tools.plan.programs import GPU_PROGRAM, PROGRAM, TRIPS, devices

from transformer.tools.plan import program

MOVED = 512 + 2 * 512 + 3 * 4 * (512 + 1024)  # the slice, the rows, and the loops
ROW = 400 + 4 + 400  # a row of a table, its number, the result


def cost(text):
    return program.total(one for _, one in program.costs(text))


def test_a_program_moves_what_it_reads_and_writes():
    # The condition of the inner loop runs, too.
    assert cost(PROGRAM) == (MOVED, 7 + 3 * 4 * 30, 1 + 1 + 3 * 4 * 2)


def test_an_asynchronous_instruction_is_counted_once():
    """With its operand and its result; a GPU's program has fusions of that kind, too."""
    assert cost(GPU_PROGRAM) == (3 * (8000 + ROW + 8000) + 8000, 0, 3 * 3 + 1)


@pytest.mark.parametrize(
    ("instruction", "moved", "kernels"),
    [
        # Rows that are taken are read, and not the table; a copy moves its ends in memory.
        ("%more = f32[2,128]{1,0} gather(%table, %ids), offset_dims={1}", 2 * 1024, 1),
        (
            "%more = (f32[128]{0}, f32[128]{0:S(1)}, u32[]{:S(2)}) copy-start(%x)\n"
            "  %end = f32[128]{0:S(1)} copy-done(%more)",
            *(512, 1),
        ),
        (
            "%more = (f32[128]{0}, f32[128]{0}, u32[]{:S(2)}) copy-start(%x)\n"
            "  %end = f32[128]{0} copy-done(%more)",
            *(1024, 1),
        ),
        ('%more = f32[256]{0} custom-call(), custom_call_target="AllocateBuffer"', 0, 0),
        ('%more = f32[128]{0} custom-call(%x), custom_call_target="ConcatBitcast"', 0, 0),
        ('%more = f32[128]{0} custom-call(%x), custom_call_target="__cublas$gemm"', 1024, 1),
    ],
)
def test_an_instruction_moves(instruction, moved, kernels):
    before, after = cost(PROGRAM), cost(PROGRAM.replace("  %done", f"  {instruction}\n  %done"))
    assert after == (before.moved + moved, before.cycles, before.kernels + kernels)


@pytest.mark.parametrize("topology", ["v5e:2x2", "h100:1"])
def test_a_matrix_product_by_the_compiler_of_its_device(topology):
    """8192 x 8192 in bfloat16: both operands read and the result written; near a TPU's peak."""
    sharding = jax.sharding.SingleDeviceSharding(devices(topology)[0])
    x = jax.ShapeDtypeStruct((8192, 8192), jnp.bfloat16, sharding=sharding)
    product = cost(jax.jit(jnp.matmul).lower(x, x).compile().as_text())
    assert product.moved == 3 * 2 * 8192**2
    if topology == "h100:1":
        assert product.kernels == 1
    else:
        assert 0.8 < 2 * 8192**3 / product.cycles / (4 * 2 * 128**2) <= 1


def counts(text):
    return {x.instruction.name: x[1:] for x in program.executions(text)}


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
    [taken] = [x.instruction for x in program.executions(PROGRAM) if x.instruction.name == "taken"]
    assert (taken.operands, taken.called) == (["table", "ids"], ["rows"])
    shape = "(s32[]{:T(128)}, /*index=1*/bf16[4,8]{1,0:T(8,128)(2,1)S(1)}, pred[3])"
    assert program.arrays(shape) == [(4, False), (64, True), (3, False)]
