"""What a TPU's program moves through the memory, and its compiler's estimate."""

import os
import re

import jax
import jax.numpy as jnp
import pytest

from transformer.tools.plan import plan, tpu_program

# Arrays with S(1) are on the chip. A step that takes two rows of a table [1000, 128], prefetches a
# slice of 512 bytes, and in a loop of four iterations reads 512 bytes and writes 1024.
PROGRAM = """
HloModule step, is_scheduled=true

%rows (param_0: f32[1000,128], param_1: s32[2]) -> f32[2,128] {
  %param_0 = f32[1000,128]{1,0:T(8,128)} parameter(0)
  %param_1 = s32[2]{0:T(128)S(1)} parameter(1)
  ROOT %gather.1 = f32[2,128]{1,0:T(8,128)} gather(%param_0, %param_1), offset_dims={1}
}

%twice (param_2: f32[128]) -> f32[256] {
  %param_2 = f32[128]{0:T(128)} parameter(0)
  ROOT %concatenate.1 = f32[256]{0:T(128)} concatenate(%param_2, %param_2), dimensions={0}
}

%four (counter: s32[]) -> pred[] {
  %limit = s32[]{:T(128)S(6)} constant(4)
  ROOT %less = pred[]{:T(512)S(6)} compare(%counter, %limit), direction=LT
}

%body (carry: f32[128]) -> f32[128] {
  %x = f32[128]{0:T(128)} parameter(0)
  ROOT %fusion.2 = f32[256]{0:T(128)} fusion(%x), calls=%twice, CYCLES(30)
}

ENTRY %main (table: f32[1000,128], ids: s32[2]) -> f32[2,128] {
  %table = f32[1000,128]{1,0:T(8,128)} parameter(0)
  %ids = s32[2]{0:T(128)S(1)} parameter(1)
  %start = ((f32[1000,128]{1,0}), f32[1,128]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%table)
  %taken = f32[2,128]{1,0:T(8,128)S(1)} fusion(%table, %ids), calls=%rows, CYCLES(7)
  %done = f32[1,128]{1,0:S(1)} slice-done(%start)
  ROOT %loop = f32[128]{0} while(%taken), condition=%four, body=%body
}
"""
PROGRAM = re.sub(r"CYCLES\((\d+)\)", r'backend_config={"estimated_cycles":"\1"}', PROGRAM)


def test_a_program_moves_what_it_reads_and_writes():
    prefetched, rows, loop = 512, 2 * 512, 4 * (512 + 1024)
    assert tpu_program.cost(PROGRAM) == (prefetched + rows + loop, 7 + 4 * 30)


def test_rows_that_are_taken_are_read_and_not_the_table():
    taken = "  %some = f32[2,128]{1,0} gather(%table, %ids), offset_dims={1}\n"
    cost = tpu_program.cost(PROGRAM.replace("  %done", taken + "  %done"))
    assert cost.moved == tpu_program.cost(PROGRAM).moved + 2 * 1024


def test_a_copy_moves_as_much_as_its_ends_in_memory():
    copy = "  %copy = (f32[128]{0}, f32[128]{0:S(1)}, u32[]{:S(2)}) copy-start(%table)\n"
    before = tpu_program.cost(PROGRAM).moved
    for ends, moved in ((copy, 512), (copy.replace(":S(1)", "", 1), 1024)):
        program = PROGRAM.replace("  %done", ends + "  %done")
        assert tpu_program.cost(program).moved == before + moved


def test_a_matrix_product_by_the_tpus_own_compiler():
    """8192 x 8192 in bfloat16: both operands read and the result written, near the peak."""
    pytest.importorskip("libtpu", reason="needs pip install jax[tpu]; no TPU")
    before = dict(os.environ)
    try:
        sharding = jax.sharding.SingleDeviceSharding(plan.slice_of_pod("v5e:2x2")[0])
    finally:
        os.environ.clear()
        os.environ.update(before)
    x = jax.ShapeDtypeStruct((8192, 8192), jnp.bfloat16, sharding=sharding)
    cost = tpu_program.cost(jax.jit(jnp.matmul).lower(x, x).compile().as_text())
    assert cost.moved == 3 * 2 * 8192**2
    assert 0.8 < 2 * 8192**3 / cost.cycles / (4 * 2 * 128**2) <= 1
