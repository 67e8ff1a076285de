"""Parses a compiled program (HLO): its instructions, how often each runs, the bytes that it moves.

Programs for accelerators also have kernels and the compiler's estimate of cycles.
"""

import logging
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# The first line of a computation, `ENTRY %main (p: f32[8]) -> f32[8] {`, and one of its lines,
# `ROOT %sum = f32[] add(%x, %y), metadata={...}`.
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([\w-]+)\((.*)$")
CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|(?:true|false)_computation)=%?([\w.-]+)"
    r"|branch_computations=\{([^}]*)\}"
)
# A loop's number of iterations, where the compiler knows it; a loop's condition.
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
CONDITION = re.compile(r"condition=%?([\w.-]+)")
# An array with its layout, `f32[4,8]{1,0:T(8,128)S(1)}`; 32 is the number of bits.
ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\](\{[^}]*\})?")


class Instruction(NamedTuple):
    """One line of a computation, `name = shape op(operands), attributes`."""

    name: str
    shape: str  # of the result, or of the tuple of several results
    op: str
    rest: str  # operands and attributes

    @property
    def operands(self) -> list[str]:
        """Returns the names of the operands."""
        return re.findall(r"%([\w.-]+)", self.rest.split(")")[0])

    @property
    def called(self) -> list[str]:
        """Returns the names of the computations that the instruction calls."""
        names = [name or branches for name, branches in CALLED.findall(self.rest)]
        return [name.strip().lstrip("%") for part in names for name in part.split(",")]


class Execution(NamedTuple):
    """An instruction, and how often it runs."""

    instruction: Instruction
    count: int  # per run of the program
    fused: bool  # whether it is part of a fusion, or of a reduction's function


class Array(NamedTuple):
    """An array in the text of a shape."""

    size: int  # bytes
    on_chip: bool  # not in the device's main memory; only TPU programs say so


def computations(program: str) -> tuple[str, dict[str, list[Instruction]]]:
    """Returns the name of the entry computation, and {name of a computation: its instructions}.

    An asynchronous instruction is a pair, `%x = ... copy-start(%y)` and `%z = ... copy-done(%x)`.
    The shape of the start would have operands and counters besides the result: it gets that of the
    `-done`.
    """
    named, entry, instructions = {}, "", []
    for line in program.splitlines():
        if head := COMPUTATION.match(line):
            instructions = named.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        elif match := INSTRUCTION.match(line):
            instructions.append(Instruction(*match.groups()))
    assert entry, "not the text of an HLO module"
    everything = [x for instructions in named.values() for x in instructions]
    results = {x.operands[0]: x.shape for x in everything if x.op.endswith("-done")}
    return entry, {
        name: [x._replace(shape=results.get(x.name, x.shape)) for x in instructions]
        for name, instructions in named.items()
    }


def executions(program: str) -> Iterator[Execution]:
    """Yields the instructions of the entry computation, each call followed by those it calls.

    An instruction in a loop runs once per iteration; it counts once, with a warning in the log, if
    the number of iterations is unknown. All branches of a conditional count.
    """
    entry, named = computations(program)

    def within(name: str, count: int, fused: bool) -> Iterator[Execution]:
        for instruction in named.get(name, ()):
            yield Execution(instruction, count, fused)
            # Nested loops multiply: 3 iterations around 5 run an instruction 15 times.
            trips = _trips(instruction, named) if instruction.op == "while" else 1
            # Instructions within a fusion or a reduction use no main memory; called ones inherit.
            part = "to_apply=" in instruction.rest and instruction.op != "call"
            part = part or instruction.op.removesuffix("-start") == "fusion"
            for called in instruction.called:
                yield from within(called, count * trips, fused or part)

    return within(entry, 1, False)


def arrays(shape: str) -> list[Array]:
    """Returns the arrays in the text of a shape.

    A TPU's program names the memory of each array: `S(1)` and higher are on the chip.
    """
    return [
        # 'f32[2,3]{1,0}' has 2 * 3 * 4 bytes; pred and types below a byte count as one.
        Array(
            math.prod(map(int, filter(None, sizes.split(",")))) * max(1, int(bits or 8) // 8),
            "S(" in layout and "S(0)" not in layout,
        )
        for _, bits, sizes, layout in ARRAY.findall(shape)
    ]


def _trips(loop: Instruction, named: dict[str, list[Instruction]]) -> int:
    """Returns the iterations of a `while`; 1, with a warning, if unknown.

    Programs for CPUs and GPUs state the number. In a TPU's program it is the limit with which the
    loop's condition compares the counter; a `scan` counts from 0.
    """
    if known := TRIPS.search(loop.rest):
        return int(known[1])
    condition = named.get((CONDITION.search(loop.rest) or ["", ""])[1], [])
    limits = [re.match(r"(\d+)\)", x.rest) for x in condition if x.op == "constant"]
    if len(limits) == 1 and limits[0] and "direction=LT" in condition[-1].rest:
        return int(limits[0][1])
    logging.warning("the loop %s of the program is counted once: its length is unknown", loop.name)
    return 1


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


def costs(program: str) -> Iterator[tuple[Execution, Cost]]:
    """Yields the instructions of `compiled.as_text()`, each with the cost of all its executions.

    The program must be compiled for an accelerator: its text is then in the order of execution. An
    instruction reads its operands and writes its results, on-chip arrays aside; an asynchronous one
    does so at its start. A gather or slice reads only the rows that it takes; writing some rows
    counts as writing the whole array. Caches are not modelled, so `moved` is an upper bound. Copies
    and collectives have no cycles: copies overlap with computation, and step_time.py has the times
    of collectives.
    """
    # A fusion counts once, by its own operands and results: its intermediates stay on the chip.
    _, named = computations(program)
    shapes = {x.name: x.shape for instructions in named.values() for x in instructions}
    for execution in executions(program):
        instruction, count, fused = execution
        if fused or _runs_nothing(instruction):
            yield execution, Cost()
            continue
        estimate = CYCLES.search(instruction.rest)
        cycles = int(estimate[1]) if estimate else 0
        moved = _moved(instruction, shapes, named)
        yield execution, Cost(count * moved, count * cycles, count)


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
        # An operand that is only gathered from or sliced counts by the parts taken.
        whole = _in_memory(shapes.get(name, ""))
        readers = _readers(instruction, i, named)
        if all(reader.op.removesuffix("-start") in TAKE_SOME for reader in readers):
            taken = [array.size for x in readers for array in arrays(x.shape)]
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
    return sum(array.size for array in arrays(shape) if not array.on_chip)
