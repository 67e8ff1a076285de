"""Finds the collectives of a compiled program in its HLO text, and the work that overlaps them."""

import collections
import math
import re
from typing import NamedTuple

import numpy as np

from transformer.tools.plan import program
from transformer.tools.plan.program import Cost, Instruction

# HLO's notation of a list of devices: [4,2]T(1,0) is arange(8), reshaped to [4, 2], transposed.
IOTA = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"
MESH = rf"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\({IOTA}\))? ?\{{([^}}]*)\}}"
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


class Collective(NamedTuple):
    """One collective instruction of a program, and how often it runs."""

    kind: str  # one of KINDS
    size: int  # bytes of the unsharded array
    group: tuple[int, ...]  # devices of the first group; all groups have the same size
    count: int  # executions per run of the program
    meanwhile: Cost = Cost()  # of the instructions between its start and its end, once

    @property
    def overlaps(self) -> bool:
        """Returns whether anything runs between its start and its end."""
        return self.meanwhile.kernels > 0

    @property
    def sent(self) -> float:
        """Returns the bytes that each device sends per execution of a ring algorithm.

        With n devices a ring all-gather sends (n - 1) / n of the array, an all-reduce twice that.
        """
        # An all-reduce is a reduce-scatter and an all-gather: with 8 devices it sends 14/8.
        ring = (len(self.group) - 1) / len(self.group)
        share = {"all-reduce": 2 * ring, "collective-permute": 1}.get(self.kind, ring)
        return share * self.size


def find_collectives(text: str, num_devices: int) -> list[Collective]:
    """Returns the collectives of an optimised HLO module, the text of `compiled.as_text()`.

    A collective in a loop counts once per iteration, and one in any branch of a conditional counts.
    Groups of a single device are left out.
    """
    collectives, costs, started = [], [], {}
    for (instruction, count, _), cost in program.costs(text):
        if instruction.op.removesuffix("-start") in KINDS:
            started[instruction.name] = len(collectives), len(costs)
            collectives.append(_collective(instruction, count, num_devices))
            continue  # not in `costs`: a collective does not hide behind another
        costs.append(cost)
        if instruction.op.removesuffix("-done") in KINDS:
            i, start = started[instruction.operands[0]]
            # `between` is per execution: in a loop, all of these run `count` times.
            between = Cost(*(x // count for x in program.total(costs[start:])))
            collectives[i] = collectives[i]._replace(meanwhile=between)
    return [collective for collective in collectives if len(collective.group) > 1]


def summed(collectives: list[Collective]) -> list[dict]:
    """Sums collectives by kind and group size, per device and step.

    'count' is the number of executions, 'overlapping' the number of those that overlap with other
    instructions, 'bytes' the size of their arrays, 'sent' the bytes that each device sends.
    """
    totals = collections.defaultdict(collections.Counter)
    for x in collectives:
        total = totals[x.kind, len(x.group)]
        total["count"] += x.count
        total["overlapping"] += x.count * x.overlaps
        total["bytes"] += x.count * x.size
        total["sent"] += x.count * x.sent
    return [
        {"kind": kind, "group": group, **total, "sent": round(total["sent"])}
        for (kind, group), total in sorted(totals.items())
    ]


def _collective(instruction: Instruction, count: int, num_devices: int) -> Collective:
    """Returns the collective of an instruction that runs `count` times."""
    group = _first_group(instruction.rest, num_devices)
    kind = instruction.op.removesuffix("-start")
    size = sum(array.size for array in program.arrays(instruction.shape))
    if kind == "reduce-scatter":  # its result is one shard
        size *= len(group)
    return Collective(kind, size, group, count)


def _first_group(line: str, num_devices: int) -> tuple[int, ...]:
    """Returns the first group of devices of an instruction; HLO has four notations for groups."""
    # replica_groups={{0,1},{2,3}}: the first group is (0, 1).
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}", line):
        return tuple(map(int, listed[1].split(",")))
    # replica_groups=[2,4]<=[4,2]T(1,0): two groups of four, read from arange(8) as [4, 2],
    # transposed: the first group is (0, 2, 4, 6).
    if iota := re.search(rf"replica_groups=\[\d+,(\d+)\]<={IOTA}", line):
        return tuple(_iota(iota[2], iota[3])[: int(iota[1])].tolist())
    # replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}: the groups along axis b of
    # a mesh [2, 4] of these devices: (0, 2, 4, 6) is the first, without device_ids (0, 1, 2, 3).
    if mesh := re.search(MESH, line):
        sizes = {axis: int(n) for axis, n in re.findall(r"('[^']*')=(\d+)", mesh[1])}
        # Part of an axis is written 'axis':(product of the parts before)size: of an axis of 8,
        # (1)2 is the major part with 2 indices, 0 and 4; (2)4 is the minor part, 0 1 2 3.
        parts = re.findall(r"('[^']*')(?::\((\d+)\)(\d+))?", mesh[4])
        steps = dict.fromkeys(sizes, range(1))
        for axis, before, size in parts:
            remaining = sizes[axis] // int(before or 1)
            steps[axis] = range(0, remaining, remaining // int(size or remaining))
        shape = tuple(sizes.values())
        devices = _iota(mesh[2] or str(math.prod(shape)), mesh[3]).reshape(shape)
        return tuple(devices[np.ix_(*steps.values())].reshape(-1).tolist())
    return tuple(range(num_devices))  # replica_groups={}: all devices


def _iota(sizes: str, order: str | None) -> np.ndarray:
    """Returns the numbers of devices in the order of IOTA: '4,2', '1,0' gives 0 2 4 6 1 3 5 7."""
    shape = [int(size) for size in sizes.split(",")]
    axes = [int(axis) for axis in order.split(",")] if order else range(len(shape))
    return np.arange(math.prod(shape)).reshape(shape).transpose(axes).reshape(-1)
