"""What a TPU's program moves through the memory, and its compiler's estimate."""

import os

import jax
import jax.numpy as jnp
import pytest
from tools.plan.programs import PROGRAM

from transformer.tools.plan import plan, tpu_program

MOVED = 512 + 2 * 512 + 3 * 4 * (512 + 1024)  # the slice, the rows, and the loops


def test_a_program_moves_what_it_reads_and_writes():
    assert tpu_program.cost(PROGRAM) == (MOVED, 7 + 3 * 4 * 30)


@pytest.mark.parametrize(
    ("instruction", "moved"),
    [
        # Rows that are taken are read, and not the table; a copy moves its ends in memory.
        ("f32[2,128]{1,0} gather(%table, %ids), offset_dims={1}", 2 * 1024),
        ("(f32[128]{0}, f32[128]{0:S(1)}, u32[]{:S(2)}) copy-start(%table)", 512),
        ("(f32[128]{0}, f32[128]{0}, u32[]{:S(2)}) copy-start(%table)", 1024),
    ],
)
def test_an_instruction_moves(instruction, moved):
    program = PROGRAM.replace("  %done", f"  %more = {instruction}\n  %done")
    assert tpu_program.cost(program).moved == MOVED + moved


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
