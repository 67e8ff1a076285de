"""Parses the text of a compiled program (HLO): its instructions, and how often each of them runs.

collectives.py and program.py share this parser.
"""

import logging
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

# The first line of a computation, `ENTRY %main (p: f32[8]) -> f32[8] {`, and one of its lines,
# `ROOT %sum = f32[] add(%x, %y), metadata={...}`.
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([\w-]+)\((.*)$")
CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|(?:true|false)_computation)=%?([\w.-]+)"
    r"|branch_computations=\{([^}]*)\}"
)
# A loop's number of iterations, if the compiler knows it; a loop's condition.
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


class Run(NamedTuple):
    """An instruction, and how often it runs."""

    instruction: Instruction
    count: int  # per run of the program
    fused: bool  # whether it is a part of a fusion, or of the function that a reduction applies


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


def runs(program: str) -> Iterator[Run]:
    """Yields the instructions of the entry computation; after a call, those of the computation.

    An instruction in a loop runs once per iteration; it counts once, with a warning in the log, if
    the number of iterations is unknown. All branches of a conditional count.
    """
    entry, named = computations(program)

    def within(name: str, count: int, fused: bool) -> Iterator[Run]:
        for instruction in named.get(name, ()):
            yield Run(instruction, count, fused)
            # Nested loops multiply: 3 iterations around 5 run an instruction 15 times.
            trips = _trips(instruction, named) if instruction.op == "while" else 1
            # What a fusion or a reduction applies needs no main memory: `fused` is inherited.
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
    """Returns the iterations of a `while`; 1, and a warning, if they are unknown.

    XLA on CPUs and GPUs writes the number down. In a TPU's program the number is the limit with
    which the loop's condition compares the counter; the counter of a `scan` begins at 0.
    """
    if known := TRIPS.search(loop.rest):
        return int(known[1])
    condition = named.get((CONDITION.search(loop.rest) or ["", ""])[1], [])
    limits = [re.match(r"(\d+)\)", x.rest) for x in condition if x.op == "constant"]
    if len(limits) == 1 and limits[0] and "direction=LT" in condition[-1].rest:
        return int(limits[0][1])
    logging.warning("the loop %s of the program is counted once: its length is unknown", loop.name)
    return 1
