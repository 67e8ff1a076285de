"""Formats a plan as the text that --mode=plan logs.

No mode, but a part of the mode plan.
"""

from transformer.errors import quantity


def in_words(estimates: dict) -> list[str]:
    """Returns the lines of a plan for the log."""
    size = lambda count: f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"
    device = estimates["device"]
    lines = [
        f"{estimates['parameters']:,} parameters",
        f"a checkpoint has {size(estimates['checkpoint_bytes'])}",
        f"a batch has {quantity(estimates['rows'], 'row')} of "
        f"{quantity(estimates['length'], 'position')} per side, "
        f"{estimates['empty_rows']:,} of them padding",
        "on each device:",
        *(f"  {size(count):>10}  {name}" for name, count in estimates["bytes_per_device"].items()),
    ]
    if estimates["memory"]:
        share = estimates["bytes_per_device"]["total"] / estimates["memory"]
        lines.append(f"  {100 * share:.0f} % of the {size(estimates['memory'])} that {device} has")
    sends = "each device sends, per step:" if estimates["collectives"] else "no communication"
    lines.append(sends)
    lines += [
        f"  {size(total['sent']):>10}  {total['count']} {total['kind']} of {size(total['bytes'])} "
        f"among {total['group']}, {total['overlapping']} of them asynchronous"
        for total in estimates["collectives"]
    ]
    if not estimates["loops_counted"]:
        lines.append("  some are in loops of unknown trip count, and counted for one iteration")
    if estimates["flops_per_step"]:
        lines.append(
            f"FLOPs: {estimates['flops_per_step']:.3e} per step, {estimates['flops_per_run']:.3e} "
            f"for the run of {estimates['num_steps']} steps"
        )
    if estimates["step_seconds"]:
        lines.append(
            f"{estimates['devices']} {device} at {100 * estimates['share_of_peak']:.0f} % of the "
            f"peak: {1e3 * estimates['compute_seconds']:.2f} ms of computation per step, "
            f"{1e3 * estimates['communication_seconds']:.2f} ms of communication"
        )
        lines.append(
            f"bound by {estimates['bound_by']}: {1e3 * estimates['step_seconds']:.2f} ms per step, "
            f"{estimates['run_seconds'] / 3600:.2f} hours for the run, if the two overlap perfectly"
        )
    else:
        lines.append("no times: the peak FLOP/s or the links of the device are unknown")
    if estimates["program"]:
        lines += program_lines(estimates["program"])
    return lines


def program_lines(program: dict) -> list[str]:
    """Returns the lines about a program compiled for a TPU: bytes moved, times, bound."""
    moved = f"{program['bytes_moved'] / 1e9:.2f} GB"
    if program["bound_seconds"] is None:
        return [f"its program moves {moved} a step through each device's memory"]
    milliseconds = lambda name: f"{1e3 * program[name]:.2f} ms"
    bound = f"bound by its own program: {milliseconds('bound_seconds')} per step"
    if share := program["share_of_peak"]:
        bound += f", at most {100 * share:.0f} % of the peak"
    return [
        f"its program, as the TPU's compiler made it, takes {milliseconds('instruction_seconds')} "
        f"of instructions (the compiler's estimate), moves {moved} through each device's memory "
        f"({milliseconds('memory_seconds')}), and waits {milliseconds('waiting_seconds')} for "
        "collectives",
        bound,
    ]
