"""Estimates the time of a step from its FLOPs, its collectives and an accelerator's program."""

from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.runtime.devices import hardware
from transformer.tools.plan.collectives import Collective
from transformer.tools.plan.program import Cost

# Seconds to launch a kernel: an assumption, not measured. CUDA graphs launch faster.
LAUNCH = 3e-6


class Work(NamedTuple):
    """Holds the work of a step, and the devices that do it."""

    flops: int | None  # of all devices; None: unknown for this model
    collectives: list[Collective]
    num_devices: int
    kind: str  # of the devices, such as 'H100'


def times(work: Work, options: ConfigDict, num_steps: int, program: dict | None = None) -> dict:
    """Estimates the seconds of a step and of the run; None for unknown values.

    `options` is `config.plan`, `program` the result of `program_times`. A step takes as long as
    computation, communication or the program's bound, whichever is longer, as if they overlapped
    perfectly.
    """
    # An unknown device has the peak 0.
    flops_per_second = work.num_devices * hardware(work.kind).peak * options.share_of_peak
    compute = work.flops / flops_per_second if work.flops and flops_per_second else None
    communication = seconds_to_send(work.collectives, work.kind, options.bandwidth)
    step_seconds = bound_by = None
    if compute is not None and communication is not None:
        in_program = program["bound_seconds"] if program else None
        bounds = {"compute": compute, "communication": communication, "program": in_program or 0.0}
        bound_by = max(bounds, key=bounds.get)
        step_seconds = bounds[bound_by]
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
    """Returns a lower bound of a step's time, from an accelerator's program; None: unknown.

    A device computes, moves data and launches kernels at the same time, so a step takes at least
    the largest of these times, plus the time of collectives that no instructions overlap.
    'attainable_share' is the MFU at this bound, the highest possible. All values are only as good
    as the counts: bytes, kernels and LAUNCH are upper bounds, and a TPU's cycles are its compiler's
    estimate, for each instruction the longer of computing and moving.
    """
    peak = work.num_devices * hardware(work.kind).peak
    computing = work.flops / peak if work.flops and peak else None
    busy = {"peak_seconds": computing, **_busy(cost, work.kind)}
    waiting = seconds_to_send(work.collectives, work.kind, bandwidth, overlapped=True)
    bound = None
    if busy["memory_seconds"] is not None and waiting is not None:
        bound = _longest(busy) + waiting
    return {
        "bytes_moved": cost.moved,
        "kernels": cost.kernels,
        **busy,
        "waiting_seconds": waiting,
        "bound_seconds": bound,
        "attainable_share": computing / bound if computing and bound else None,
    }


def _busy(cost: Cost, kind: str) -> dict:
    """Returns the seconds in which devices of a kind move data, compute and launch kernels."""
    device = hardware(kind)
    moving = cost.moved / device.memory_bandwidth if device.memory_bandwidth else None
    return {
        "memory_seconds": moving,
        "instruction_seconds": cost.cycles / device.clock if device.clock else None,
        # A TPU's host launches whole programs, not kernels.
        "launch_seconds": None if "TPU" in kind else cost.kernels * LAUNCH,
    }


def _longest(times: dict) -> float:
    return max((seconds for seconds in times.values() if seconds), default=0.0)


def seconds_to_send(
    collectives: list[Collective], kind: str, bandwidth: float, *, overlapped: bool = False
) -> float | None:
    """Returns the seconds that collectives take; None if the bandwidth is unknown.

    A `bandwidth` of 0 is replaced by that of the device `kind`. If `overlapped`, a collective
    counts only with its time beyond that of the overlapping instructions. Simultaneous collectives
    do not share links.
    """
    seconds = 0.0
    for collective in collectives:
        bytes_per_second = bandwidth or group_bandwidth(kind, collective.group)
        if not bytes_per_second:
            return None
        sending = collective.sent / bytes_per_second
        if overlapped:
            sending = max(0.0, sending - _longest(_busy(collective.meanwhile, kind)))
        seconds += collective.count * sending
    return seconds


def group_bandwidth(kind: str, group: tuple[int, ...]) -> float:
    """Returns the bytes/s that each device of a group sends, 0 if unknown.

    An island is a set of devices with fast links among them. A ring through several islands is as
    fast as its slowest link, such as the network adapters of an island's members together.
    Example: 16 H100 in islands of 8 send min(450, 8 * 50) = 400 GB/s.
    """
    links = hardware(kind)
    # Devices are numbered island by island: with 8 in each, device 9 is in island 1.
    islands = [device // links.devices_per_island for device in group]
    in_island = islands.count(islands[0])
    if in_island == len(group):
        return links.link_bandwidth
    return min(links.link_bandwidth, in_island * links.network_bandwidth)
