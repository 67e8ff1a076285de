"""Finds the collectives of a compiled program in its HLO text: sizes, groups and counts.

No mode, but a parser of compiled HLO for the mode plan.
"""

import collections
import functools
import itertools
import math
import re
from typing import NamedTuple

import numpy as np

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
COLLECTIVE = re.compile(rf" = (.*?) ({'|'.join(KINDS)})(-start)?\(")
CALLED = re.compile(r"(?:body|condition|calls|to_apply|(?:true|false)_computation)=%?([\w.-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")


class Collective(NamedTuple):
    """One collective instruction of a program, and how often it runs."""

    kind: str  # one of KINDS
    size: int  # bytes of the unsharded array
    group: tuple[int, ...]  # devices of the first of its groups; all groups have the same size
    count: int  # executions per run of the program
    exact: bool  # False: in a loop of unknown trip count, and `count` is that of one iteration

    @property
    def sent(self) -> float:
        """The bytes that each device sends per execution of a ring algorithm.

        With n devices a ring all-gather sends (n - 1) / n of the array, an all-reduce twice that.
        """
        ring = (len(self.group) - 1) / len(self.group)
        share = {"all-reduce": 2 * ring, "collective-permute": 1}.get(self.kind, ring)
        return share * self.size


def find_collectives(program: str, num_devices: int) -> list[Collective]:
    """Returns the collectives of an optimised HLO module, the text of `compiled.as_text()`.

    Those in a loop count once per iteration, those in the branches of a conditional once for each
    branch. Groups of a single device are left out.
    """
    # {computation: its lines}. A module is a list of computations that call each other.
    computations, entry, lines = {}, "", []
    for line in program.splitlines():
        if head := COMPUTATION.match(line):
            lines = computations.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        else:
            lines.append(line)

    @functools.cache
    def within(name: str) -> list[Collective]:
        """Returns the collectives of a computation and of those it calls."""
        collected = []
        for line in computations.get(name, ()):
            if match := COLLECTIVE.search(line):
                collected.append(_collective(*match.groups(), line, num_devices))
            called = CALLED.findall(line)
            for names in BRANCHES.findall(line):
                called += [branch.strip().lstrip("%") for branch in names.split(",")]
            trips, loop = TRIPS.search(line), " while(" in line
            times, exact = int(trips[1]) if trips else 1, bool(trips) or not loop
            for inner in itertools.chain.from_iterable(map(within, called)):
                both = inner.exact and exact
                collected.append(inner._replace(count=inner.count * times, exact=both))
        return collected

    assert entry, "not the text of an HLO module"
    return [collective for collective in within(entry) if len(collective.group) > 1]


def summed(collectives: list[Collective]) -> list[dict]:
    """Sums collectives by kind and group size, per device and step.

    'count' is how many run, 'bytes' the size of their arrays, 'sent' the bytes that a device sends.
    """
    totals = collections.defaultdict(lambda: [0, 0, 0.0])
    for collective in collectives:
        total = totals[collective.kind, len(collective.group)]
        for i, value in enumerate((1, collective.size, collective.sent)):
            total[i] += collective.count * value
    return [
        {"kind": kind, "group": group, "count": count, "bytes": size, "sent": round(sent)}
        for (kind, group), (count, size, sent) in sorted(totals.items())
    ]


def _collective(shape: str, kind: str, start: str | None, line: str, devices: int) -> Collective:
    """Returns the collective of an HLO line; `shape` is the text of its result's shapes."""
    group = _first_group(line, devices)
    size = sum(
        math.prod(map(int, filter(None, sizes.split(",")))) * max(1, int(bits or 8) // 8)
        for _, bits, sizes in ARRAY.findall(shape)
    )
    # An asynchronous start lists operand and result: a shard and the whole array, which with n
    # devices is n + 1 shards. A synchronous reduce-scatter only lists its result, one shard.
    if start and kind in ("all-gather", "reduce-scatter"):
        size = size * len(group) // (len(group) + 1)
    elif start and kind == "collective-permute":
        size //= 2
    elif kind == "reduce-scatter":
        size *= len(group)
    return Collective(kind, size, group, 1, True)


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
