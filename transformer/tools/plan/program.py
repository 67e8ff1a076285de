"""Reads from an accelerator's program the bytes that it moves, its kernels and estimated cycles."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from transformer.tools.plan import hlo
from transformer.tools.plan.hlo import Instruction, Run

# Instructions that run nothing themselves.
NAMES = ("bitcast", "constant", "get-tuple-element", "parameter", "tuple")
CONTROL_FLOW = ("call", "conditional", "while")
# Custom calls of a TPU's program that only name memory.
NAMING = re.compile(r'custom_call_target="(?:AllocateBuffer|ConcatBitcast)"')
# Instructions that read a part of their operand.
TAKE_SOME = ("gather", "dynamic-slice", "slice")
CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


class Cost(NamedTuple):
    """Holds the costs of instructions on each device."""

    moved: int = 0  # bytes read from or written to the device's main memory
    cycles: int = 0  # the compiler's estimates, added up; only TPU programs have them
    kernels: int = 0  # instructions that run: what a GPU launches


def total(costs: Iterable[Cost]) -> Cost:
    """Returns the sum of costs."""
    return Cost(*map(sum, zip(*costs, strict=True)))


def costs(program: str) -> Iterator[tuple[Run, Cost]]:
    """Yields what runs in the text of `compiled.as_text()`, with the cost of all its executions.

    The program is one that was compiled for an accelerator, whose order is that of its execution.
    An instruction reads its operands and writes its results, on-chip arrays aside; an asynchronous
    one does so at its start. A gather or slice reads only the rows that it takes; writing some rows
    counts as writing the whole array. Caches are not modelled, so `moved` is an upper bound. The
    compiler estimates no cycles for copies and collectives: copies overlap with computation, and
    step_time.py has the times of collectives.
    """
    # A fusion counts once, by its own operands and results: what is between stays on the chip.
    _, named = hlo.computations(program)
    shapes = {x.name: x.shape for instructions in named.values() for x in instructions}
    for run in hlo.runs(program):
        instruction = run.instruction
        if run.fused or _runs_nothing(instruction):
            yield run, Cost()
            continue
        estimate = CYCLES.search(instruction.rest)
        cycles = int(estimate[1]) if estimate else 0
        moved = _moved(instruction, shapes, named)
        yield run, Cost(run.count * moved, run.count * cycles, run.count)


def _runs_nothing(instruction: Instruction) -> bool:
    return (
        instruction.op in NAMES + CONTROL_FLOW
        or instruction.op.endswith("-done")
        or NAMING.search(instruction.rest) is not None
    )


def _moved(
    instruction: Instruction, shapes: dict[str, str], named: dict[str, list[Instruction]]
) -> int:
    """Returns the bytes that an instruction reads from and writes to the main memory."""
    read = 0
    for i, name in enumerate(instruction.operands):
        # An operand that is only gathered from or sliced counts as the parts that are taken.
        whole = _in_memory(shapes.get(name, ""))
        readers = _readers(instruction, i, named)
        if all(reader.op.removesuffix("-start") in TAKE_SOME for reader in readers):
            taken = [array.size for x in readers for array in hlo.arrays(x.shape)]
            whole = min(whole, sum(taken))
        read += whole
    return read + _in_memory(instruction.shape)


def _readers(
    instruction: Instruction, number: int, named: dict[str, list[Instruction]]
) -> list[Instruction]:
    """Returns the readers of operand `number`: the instruction itself, or instructions it fuses."""
    if instruction.op.removesuffix("-start") != "fusion":
        return [instruction]
    # In a fused computation operand 2 is named by the line `%p = f32[8] parameter(2)`.
    fused = named.get(instruction.called[0], [])
    parameters = [x.name for x in fused if x.op == "parameter" and x.rest.startswith(f"{number})")]
    return [x for x in fused if {*parameters} & {*x.operands}]


def _in_memory(shape: str) -> int:
    """Returns the bytes of a shape's arrays that are in the main memory."""
    return sum(array.size for array in hlo.arrays(shape) if not array.on_chip)
