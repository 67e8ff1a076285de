"""Estimates the time of a step from its FLOPs, its collectives and a TPU's program."""

from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.runtime.devices import hardware
from transformer.tools.plan.collectives import Collective
from transformer.tools.plan.tpu_program import Cost


class Work(NamedTuple):
    """Holds the work of a step, and the devices that do it."""

    flops: int | None  # of all devices; None: unknown for this model
    collectives: list[Collective]
    num_devices: int
    kind: str  # of the devices, such as 'H100'


def times(work: Work, options: ConfigDict, num_steps: int) -> dict:
    """Estimates the seconds of a step and of the run; None for unknown values.

    `options` is `config.plan`. A step takes as long as computation or communication, whichever is
    longer, as if they overlapped perfectly.
    """
    # An unknown device has the peak 0.
    flops_per_second = work.num_devices * hardware(work.kind).peak * options.share_of_peak
    compute = work.flops / flops_per_second if work.flops and flops_per_second else None
    communication = seconds_to_send(work.collectives, work.kind, options.bandwidth)
    step_seconds = bound_by = None
    if compute is not None and communication is not None:
        step_seconds = max(compute, communication)
        bound_by = "compute" if step_seconds == compute else "communication"
    return {
        "share_of_peak": options.share_of_peak,
        "compute_seconds": compute,
        "communication_seconds": communication,
        "bound_by": bound_by,
        "step_seconds": step_seconds,
        "num_steps": num_steps,
        "run_seconds": step_seconds and step_seconds * num_steps,
    }


def program_times(work: Work, cost: Cost, bandwidth: float) -> dict:
    """Returns a lower bound of a step's time, from a TPU's own program; None for unknown values.

    A device moves data while it computes, and the compiler's estimate of an instruction counts the
    longer of the two. So a step takes at least the larger of both sums, plus the collectives that
    do not overlap with them. 'share_of_peak' is the MFU at this bound, the highest possible. All
    values are as good as the compiler's estimates.
    """
    device = hardware(work.kind)
    memory = instructions = bound = share = None
    if device.clock:
        memory = cost.moved / device.memory_bandwidth
        instructions = cost.cycles / device.clock
    waited_for = [collective for collective in work.collectives if not collective.overlaps]
    waiting = seconds_to_send(waited_for, work.kind, bandwidth)
    if memory is not None and waiting is not None:
        bound = max(memory, instructions) + waiting
        share = work.flops and work.flops / (work.num_devices * device.peak) / bound
    return {
        "bytes_moved": cost.moved,
        "memory_seconds": memory,
        "instruction_seconds": instructions,
        "waiting_seconds": waiting,
        "bound_seconds": bound,
        "share_of_peak": share,
    }


def seconds_to_send(collectives: list[Collective], kind: str, bandwidth: float) -> float | None:
    """Returns the seconds that collectives take; None if the bandwidth is unknown.

    A `bandwidth` of 0 stands for that of the device `kind`.
    """
    seconds = 0.0
    for collective in collectives:
        bytes_per_second = bandwidth or rate(kind, collective.group)
        if not bytes_per_second:
            return None
        seconds += collective.count * collective.sent / bytes_per_second
    return seconds


def rate(kind: str, group: tuple[int, ...]) -> float:
    """Returns the bytes/s that each device of a group sends, 0 if unknown.

    An island is a set of devices with fast links among them. A ring through several islands is as
    fast as its slowest link: the network adapters of all members of the group in one island.
    Example: 16 H100 in islands of 8 send min(450, 8 * 50) = 400 GB/s.
    """
    links = hardware(kind)
    # Devices are numbered island by island: with 8 in each, device 9 is in island 1.
    islands = [device // links.devices_per_island for device in group]
    in_island = islands.count(islands[0])
    if in_island == len(group):
        return links.link_bandwidth
    return min(links.link_bandwidth, in_island * links.network_bandwidth)
