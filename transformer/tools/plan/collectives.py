"""Finds the collectives of a compiled program in its HLO text: sizes, groups and counts.

No mode, but a parser of compiled HLO for the mode plan.
"""

import collections
import math
import re
from typing import NamedTuple

import numpy as np

from transformer.tools.plan import hlo
from transformer.tools.plan.hlo import Instruction

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


class Collective(NamedTuple):
    """One collective instruction of a program, and how often it runs."""

    kind: str  # one of KINDS
    size: int  # bytes of the unsharded array
    group: tuple[int, ...]  # devices of the first of its groups; all groups have the same size
    count: int  # executions per run of the program
    exact: bool  # False: in a loop of unknown trip count, and `count` is that of one iteration
    overlaps: bool  # asynchronous: the device can compute while it runs

    @property
    def sent(self) -> float:
        """Returns the bytes that each device sends per execution of a ring algorithm.

        With n devices a ring all-gather sends (n - 1) / n of the array, an all-reduce twice that.
        """
        ring = (len(self.group) - 1) / len(self.group)
        share = {"all-reduce": 2 * ring, "collective-permute": 1}.get(self.kind, ring)
        return share * self.size


def find_collectives(program: str, num_devices: int) -> list[Collective]:
    """Returns the collectives of an optimised HLO module, the text of `compiled.as_text()`.

    A collective in a loop counts once per iteration; of a conditional all branches count. Groups of
    a single device are left out.
    """
    collected = [
        _collective(instruction, count, exact, num_devices)
        for instruction, count, exact, _ in hlo.runs(program)
        if instruction.op.removesuffix("-start") in KINDS
    ]
    return [collective for collective in collected if len(collective.group) > 1]


def summed(collectives: list[Collective]) -> list[dict]:
    """Sums collectives by kind and group size, per device and step.

    'count' is the number of executions, 'overlapping' the asynchronous ones among them, 'bytes' the
    size of their arrays, 'sent' the bytes that each device sends.
    """
    totals = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    for collective in collectives:
        total = totals[collective.kind, len(collective.group)]
        values = 1, collective.overlaps, collective.size, collective.sent
        for i, value in enumerate(values):
            total[i] += collective.count * value
    return [
        {"kind": kind, "group": group}
        | {"count": count, "overlapping": overlapping, "bytes": size, "sent": round(sent)}
        for (kind, group), (count, overlapping, size, sent) in sorted(totals.items())
    ]


def _collective(instruction: Instruction, count: int, exact: bool, num_devices: int) -> Collective:
    """Returns the collective of an instruction that runs `count` times."""
    group = _first_group(instruction.rest, num_devices)
    kind = instruction.op.removesuffix("-start")
    size = sum(array.size for array in hlo.arrays(instruction.shape))
    starts = kind != instruction.op
    overlaps = starts and '"is_sync":true' not in instruction.rest  # as XLA on GPUs writes it
    # An asynchronous start lists operand and result: a shard and the whole array, which with n
    # devices is n + 1 shards. A synchronous reduce-scatter only lists its result, one shard.
    if starts and kind in ("all-gather", "reduce-scatter"):
        size = size * len(group) // (len(group) + 1)
    elif starts and kind == "collective-permute":
        size //= 2
    elif kind == "reduce-scatter":
        size *= len(group)
    return Collective(kind, size, group, count, exact, overlaps)


def _first_group(line: str, num_devices: int) -> tuple[int, ...]:
    """Returns the first group of devices of an instruction; HLO has four notations for groups."""
    # replica_groups={{0,1},{2,3}}: the first group is (0, 1).
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}", line):
        return tuple(map(int, listed[1].split(",")))
    # replica_groups=[2,4]<=[4,2]T(1,0): two groups of four, read from arange(8) as [4, 2],
    # transposed: the first group is (0, 2, 4, 6).
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        shape, order = (list(map(int, x.split(","))) if x else None for x in iota.groups()[2:])
        devices = np.arange(math.prod(shape)).reshape(shape).transpose(order)
        return tuple(devices.reshape(int(iota[1]), int(iota[2]))[0].tolist())
    # replica_groups=mesh['a'=2,'b'=4] {'b'}: the groups along axis b of a mesh [2, 4]: the first
    # group is (0, 1, 2, 3).
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}", line):
        sizes = {axis: int(n) for axis, n in re.findall(r"('[^']*')=(\d+)", mesh[1])}
        # Part of an axis is written 'axis':(product of the parts before it)size.
        parts = re.findall(r"('[^']*')(?::\((\d+)\)(\d+))?", mesh[2])
        steps = dict.fromkeys(sizes, range(1))
        for axis, before, size in parts:
            rest = sizes[axis] // int(before or 1)
            steps[axis] = range(0, rest, rest // int(size or rest))
        devices = np.arange(math.prod(sizes.values())).reshape(*sizes.values())
        return tuple(devices[np.ix_(*steps.values())].reshape(-1).tolist())
    return tuple(range(num_devices))  # replica_groups={}: all devices
