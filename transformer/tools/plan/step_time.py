"""Estimates how long a step takes, from its FLOPs, its collectives and a TPU's program.

No mode, but a part of the mode plan.
"""

from ml_collections import ConfigDict

from transformer.runtime.devices import hardware, peak
from transformer.tools.plan.collectives import Collective
from transformer.tools.plan.tpu_program import Cost


def times(
    collectives: list[Collective],
    flops: int | None,
    num_devices: int,
    kind: str,
    config: ConfigDict,
) -> dict:
    """Estimates the seconds of a step and of the run; None for unknown values.

    A step takes the longer of computation and communication, as if they overlapped perfectly.
    """
    options, num_steps = config.plan, config.train.num_steps
    flops_per_second = num_devices * peak(kind) * options.share_of_peak
    compute = flops / flops_per_second if flops and flops_per_second else None
    communication = seconds_to_send(collectives, kind, options.bandwidth)
    step_seconds = bound_by = without_overlap = None
    if compute is not None and communication is not None:
        step_seconds = max(compute, communication)
        bound_by = "compute" if step_seconds == compute else "communication"
        without_overlap = compute + communication
    return {
        "share_of_peak": options.share_of_peak,
        "compute_seconds": compute,
        "communication_seconds": communication,
        "bound_by": bound_by,
        "step_seconds": step_seconds,
        "step_seconds_without_overlap": without_overlap,
        "num_steps": num_steps,
        "run_seconds": step_seconds and step_seconds * num_steps,
    }


def program_times(
    cost: Cost,
    collectives: list[Collective],
    flops: int | None,
    num_devices: int,
    kind: str,
    config: ConfigDict,
) -> dict:
    """Returns what a TPU's own program takes of a step; None for unknown values.

    A device moves data while it computes, and the compiler's estimate of an instruction counts the
    longer of the two. So the step takes at least the larger sum, and then the collectives that do
    not overlap with it. 'share_of_peak' is what that leaves of the peak, at most. All of it is as
    good as the compiler's estimate.
    """
    device, at_peak = hardware(kind), num_devices * peak(kind)
    memory = instructions = bound = share = None
    if device and device.clock:
        memory = cost.moved / device.memory_bandwidth
        instructions = cost.cycles / device.clock
    waiting = seconds_to_send(
        [x for x in collectives if not x.overlaps], kind, config.plan.bandwidth
    )
    if memory is not None and waiting is not None:
        bound = max(memory, instructions) + waiting
        share = flops / at_peak / bound if flops else None
    return {
        "bytes_moved": cost.moved,
        "memory_seconds": memory,
        "instruction_seconds": instructions,
        "waiting_seconds": waiting,
        "bound_seconds": bound,
        "share_of_peak": share,
    }


def seconds_to_send(collectives: list[Collective], kind: str, bandwidth: float) -> float | None:
    """Returns how long collectives take, None if unknown; 0 as `bandwidth` is the device's own."""
    rates = [bandwidth or rate(kind, collective.group) for collective in collectives]
    if not all(rates):
        return None
    return sum(
        collective.count * collective.sent / bytes_per_second
        for collective, bytes_per_second in zip(collectives, rates, strict=True)
    )


def rate(kind: str, group: tuple[int, ...]) -> float:
    """Returns the bytes/s that each device of a group sends, 0 if unknown.

    An island is a set of devices with fast links among them. A ring through several islands is as
    fast as its slowest link: the network adapters of all members of the group in one island.
    Example: 16 H100 in islands of 8 send min(450, 8 * 50) = 400 GB/s.
    """
    links = hardware(kind)
    if links is None:
        return 0.0
    in_island = sum(
        device // links.devices_per_island == group[0] // links.devices_per_island
        for device in group
    )
    if in_island == len(group):
        return links.link_bandwidth
    return min(links.link_bandwidth, in_island * links.network_bandwidth)
