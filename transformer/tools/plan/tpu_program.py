"""Reads from a TPU's program the bytes it moves and the cycles that its compiler estimates.

No mode, but a part of the mode plan.
"""

import re
from typing import NamedTuple

from transformer.tools.plan import hlo
from transformer.tools.plan.hlo import Instruction

# Instructions that move nothing themselves; a custom call of a train step only names memory.
NAMES = ("bitcast", "constant", "custom-call", "get-tuple-element", "parameter", "tuple")
CONTROL_FLOW = ("conditional", "while")
TAKE_SOME = ("gather", "dynamic-slice", "slice")
CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


class Cost(NamedTuple):
    """Holds what a run of the program costs each device."""

    moved: int  # bytes read from or written to the device's main memory
    cycles: int  # the compiler's estimates of its instructions, added up


def cost(program: str) -> Cost:
    """Returns the cost of a program compiled for a TPU, from the text of `compiled.as_text()`.

    An instruction reads its operands and writes its results, on-chip arrays aside. A gather or
    slice reads only the rows that it takes; a write of some rows counts as one of the whole array.
    The compiler gives no cycles to copies and collectives: copies overlap with computation, and
    step_time.py has the times of collectives.
    """
    _, named = hlo.computations(program)
    shapes = {x.name: x.shape for instructions in named.values() for x in instructions}
    moved = cycles = 0
    for instruction, count, fused in hlo.runs(program):
        if not fused:
            estimate = CYCLES.search(instruction.rest)
            cycles += count * int(estimate[1]) if estimate else 0
            moved += count * _moved(instruction, shapes, named)
    return Cost(moved, cycles)


def _moved(
    instruction: Instruction, shapes: dict[str, str], named: dict[str, list[Instruction]]
) -> int:
    """Returns the bytes that an instruction reads from and writes to the main memory."""
    if instruction.op in NAMES + CONTROL_FLOW or instruction.op.endswith("-done"):
        return 0
    if instruction.op in ("copy-start", "slice-start"):
        # One end is the whole of what moves: of a slice, its result.
        ends = hlo.arrays(instruction.shape)[:2]
        return min(end.size for end in ends) * sum(not end.on_chip for end in ends)
    read = 0
    for i, name in enumerate(instruction.operands):
        whole = _in_memory(shapes.get(name, ""))
        readers = _readers(instruction, i, named)
        if all(reader.op in TAKE_SOME for reader in readers):
            taken = [array.size for x in readers for array in hlo.arrays(x.shape)]
            whole = min(whole, sum(taken))
        read += whole
    return read + _in_memory(instruction.shape)


def _readers(
    instruction: Instruction, number: int, named: dict[str, list[Instruction]]
) -> list[Instruction]:
    """Returns what reads operand `number`: the instruction itself, or those that it fuses."""
    if instruction.op != "fusion":
        return [instruction]
    fused = named.get(instruction.called[0], [])
    parameters = [x.name for x in fused if x.op == "parameter" and x.rest.startswith(f"{number})")]
    return [x for x in fused if {*parameters} & {*x.operands}]


def _in_memory(shape: str) -> int:
    return sum(array.size for array in hlo.arrays(shape) if not array.on_chip)
