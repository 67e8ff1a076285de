"""Reads from a TPU's program the bytes that it moves, and its compiler's estimate of cycles."""

import re
from typing import NamedTuple

from transformer.tools.plan import hlo
from transformer.tools.plan.hlo import Instruction

# Instructions that move no data; a custom call in a train step only names memory.
NAMES = ("bitcast", "constant", "custom-call", "get-tuple-element", "parameter", "tuple")
CONTROL_FLOW = ("conditional", "while")
# Instructions that read a part of their operand.
TAKE_SOME = ("gather", "dynamic-slice", "slice")
CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


class Cost(NamedTuple):
    """Holds the costs of one run of the program on each device."""

    moved: int  # bytes read from or written to the device's main memory
    cycles: int  # the compiler's estimates of its instructions, added up


def cost(program: str) -> Cost:
    """Returns the cost of a program compiled for a TPU, from the text of `compiled.as_text()`.

    An instruction reads its operands and writes its results, on-chip arrays aside. A gather or
    slice reads only the rows that it takes; writing some rows counts as writing the whole array.
    The compiler estimates no cycles for copies and collectives: copies overlap with computation,
    and step_time.py has the times of collectives.
    """
    # A fusion counts once, by its own operands and results: what is between stays on the chip.
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
        # The smaller end is all that moves: the result of a slice. Each end off the chip counts.
        ends = hlo.arrays(instruction.shape)[:2]
        return min(end.size for end in ends) * sum(not end.on_chip for end in ends)
    read = 0
    for i, name in enumerate(instruction.operands):
        # An operand that is only gathered from or sliced counts as the parts that are taken.
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
    """Returns the readers of operand `number`: the instruction itself, or instructions it fuses."""
    if instruction.op != "fusion":
        return [instruction]
    # In a fused computation operand 2 is named by the line `%p = f32[8] parameter(2)`.
    fused = named.get(instruction.called[0], [])
    parameters = [x.name for x in fused if x.op == "parameter" and x.rest.startswith(f"{number})")]
    return [x for x in fused if {*parameters} & {*x.operands}]


def _in_memory(shape: str) -> int:
    """Returns the bytes of a shape's arrays that are in the main memory."""
    return sum(array.size for array in hlo.arrays(shape) if not array.on_chip)
