"""A compiled program's text -> what its devices send one another in a run of it."""

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
    """One instruction by which a group of devices talks, and how often it runs."""

    kind: str
    size: int  # bytes of the whole array, as the device that has all of it has it
    group: tuple[int, ...]  # the devices of the first of its groups
    count: int
    counted: bool  # False: in a loop of unknown length, and `count` is that of one iteration

    @property
    def sent(self) -> float:
        """The bytes that a device sends, each time, if the group is a ring."""
        others = (len(self.group) - 1) / len(self.group)
        share = {"all-reduce": 2 * others, "collective-permute": 1}.get(self.kind, others)
        return share * self.size


def collectives(program: str, num_devices: int) -> list[Collective]:
    """Those of an optimised HLO module, as `compiled.as_text()` has it, for so many devices.

    A loop's are counted as often as it runs, all branches of a conditional once each.
    """
    computations, entry, lines = {}, "", []
    for line in program.splitlines():
        if head := COMPUTATION.match(line):
            lines = computations.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        else:
            lines.append(line)

    @functools.cache
    def within(name: str) -> list[Collective]:
        found = []
        for line in computations.get(name, ()):
            if match := COLLECTIVE.search(line):
                found.append(_collective(*match.groups(), line, num_devices))
            called = CALLED.findall(line)
            for names in BRANCHES.findall(line):
                called += [branch.strip().lstrip("%") for branch in names.split(",")]
            trips, loop = TRIPS.search(line), " while(" in line
            times, counted = int(trips[1]) if trips else 1, bool(trips) or not loop
            for one in itertools.chain.from_iterable(map(within, called)):
                known = one.counted and counted
                found.append(one._replace(count=one.count * times, counted=known))
        return found

    assert entry, "not the text of an HLO module"
    return [one for one in within(entry) if len(one.group) > 1]


def _collective(shape: str, kind: str, start: str | None, line: str, devices: int) -> Collective:
    group = _first_group(line, devices)
    size = sum(
        math.prod(map(int, filter(None, sizes.split(",")))) * max(1, int(bits or 8) // 8)
        for _, bits, sizes in ARRAY.findall(shape)
    )
    if start and kind in ("all-gather", "reduce-scatter"):  # (operands, results)
        size = size * len(group) // (len(group) + 1)
    elif start and kind == "collective-permute":
        size //= 2
    elif kind == "reduce-scatter":
        size *= len(group)
    return Collective(kind, size, group, 1, True)


def _first_group(line: str, num_devices: int) -> tuple[int, ...]:
    """The first of an instruction's groups of devices, which are written in one of four ways."""
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}", line):
        return tuple(map(int, listed[1].split(",")))
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        shape, order = (list(map(int, x.split(","))) if x else None for x in iota.groups()[2:])
        devices = np.arange(math.prod(shape)).reshape(shape).transpose(order)
        return tuple(devices.reshape(int(iota[1]), int(iota[2]))[0].tolist())
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}", line):
        sizes = {axis: int(n) for axis, n in re.findall(r"('[^']*')=(\d+)", mesh[1])}
        # A part of an axis is written 'axis':(product of the parts before it)size.
        parts = re.findall(r"('[^']*')(?::\((\d+)\)(\d+))?", mesh[2])
        steps = dict.fromkeys(sizes, range(1))
        for axis, before, size in parts:
            rest = sizes[axis] // int(before or 1)
            steps[axis] = range(0, rest, rest // int(size or rest))
        devices = np.arange(math.prod(sizes.values())).reshape(*sizes.values())
        return tuple(devices[np.ix_(*steps.values())].reshape(-1).tolist())
    return tuple(range(num_devices))
