"""A config -> what its training would take: memory, FLOPs, communication, time.

Nothing of the model is allocated: the step is compiled for shapes, and the program says the rest.
"""

import collections
import functools
import importlib.util
import json
import logging
import math
import os
import re
from pathlib import Path

import flax.linen as nn
import jax
from jax.experimental import topologies
from ml_collections import ConfigDict

from transformer.distributed import step
from transformer.distributed.layout import Layout, bytes_per_device, make_layout, to_restore
from transformer.distributed.step import compile_step
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.modes.collectives import Collective, collectives
from transformer.monitoring import devices, progress
from transformer.monitoring.devices import peak, surroundings
from transformer.tasks.task import init_params, load_task
from transformer.training import loop
from transformer.training.update import TrainState, init_state

Tree = dict

# Accelerators order a program's instructions for memory, XLA on CPUs for its threads.
FOR_MEMORY = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


def plan(config: ConfigDict, workdir: Path) -> None:
    """--mode=plan: prints what the run would take, one JSON line; the workdir is not looked at."""
    check(config)
    if config.plan.num_devices or config.plan.topology:
        simulate(config.plan.num_devices or 1)
    prepare.check(config)
    found = planned(config)
    describe(found)
    print(json.dumps(found))


def check(config: ConfigDict) -> None:
    """UserError for values of `config.plan` that cannot work."""
    options = config.plan
    if options.num_devices < 0:
        raise UserError(
            "config.plan.num_devices is at least 1, or 0 for the devices that there are, found "
            f"{options.num_devices}"
        )
    if options.topology and options.num_devices:
        raise UserError(
            f"config.plan.topology={options.topology} has its own number of devices, found "
            f"config.plan.num_devices={options.num_devices} besides"
        )
    if options.topology and not re.fullmatch(r"v[56]e:\d+x\d+", options.topology):
        raise UserError(
            "config.plan.topology is a slice of TPU v5e or v6e, such as v5e:4x4, found "
            f"{options.topology!r} (for others set config.plan.num_devices)"
        )
    if options.topology and not importlib.util.find_spec("libtpu"):
        raise UserError(
            f"config.plan.topology={options.topology} wants the TPUs' compiler, found no libtpu: "
            "pip install jax[tpu]"
        )
    if options.device and not devices.peak(options.device):
        known = ", ".join(name for name, flops in devices.PEAKS.items() if flops)
        raise UserError(f"config.plan.device is one of {known}, found {options.device!r}")
    if not 0 < options.share_of_peak <= 1:
        raise UserError(
            f"config.plan.share_of_peak is above 0 and at most 1, found {options.share_of_peak}"
        )
    if options.bandwidth < 0:
        raise UserError(
            "config.plan.bandwidth is in bytes/s, or 0 for what is known of the device, found "
            f"{options.bandwidth}"
        )


def simulate(num_devices: int) -> None:
    """Has JAX see so many devices, all on the CPU: before anything else asks it for any."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FOR_MEMORY}"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", num_devices)


def slice_of_pod(topology: str) -> list[jax.Device]:
    """The devices of such a slice, to compile for: none of them is here.

    Chips of two cores (v4, v5p) come as two devices, which in use are one: they are refused.
    """
    # Otherwise libtpu asks the network where it is.
    os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost")
    return topologies.get_topology_desc(topology, platform="tpu").devices


def planned(config: ConfigDict) -> dict:
    """The plan, in bytes, FLOPs and seconds; None where something is not known."""
    options, how = config.plan, (config.parallel.strategy, config.parallel.mesh)
    elsewhere = slice_of_pod(options.topology) if options.topology else ()
    layout = make_layout(*how, options.num_devices, elsewhere)
    task = load_task(config.task)
    model = task.model(config, task.sizes(config, None))
    filled, length = jax.tree.leaves(task.example(config, 0))[0].shape
    rows = step.rows_for_devices(filled, layout.row_parts * config.train.accumulate)
    batch = batch_on(layout, task.example(config, rows))
    state, program = compiled(config, model, layout, batch)
    memory = program.memory_analysis()
    sizes = {
        "parameters": bytes_per_device(state.params),
        "moments": bytes_per_device(state.opt_state),
        "batch": memory.argument_size_in_bytes - bytes_per_device(state),
        "temporaries": memory.temp_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
    }
    flops = model.flops(rows, length) if hasattr(model, "flops") else None
    devices, steps = layout.mesh.size, config.train.num_steps
    kind = options.device or layout.mesh.devices.flat[0].device_kind
    sent = collectives(program.as_text(), devices)
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(state.params)),
        "devices": devices,
        "device": kind,
        "strategy": layout.strategy,
        "mesh": tuple(layout.mesh.shape.values()),
        "rows": rows,
        "empty_rows": rows - filled,
        "length": length,
        "bytes_per_device": sizes | {"total": sum(sizes.values())},
        "memory": getattr(surroundings(kind), "memory", None),
        "checkpoint_bytes": sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state)),
        "flops_per_step": flops,
        "flops_per_run": flops and flops * steps,
        "collectives": summed(sent),
        "loops_counted": all(one.counted for one in sent),
        **times(sent, flops, devices, kind, config),
    }


def batch_on(layout: Layout, batch: Tree) -> Tree:
    """The shapes and types of a batch [rows, length] as the compiled step takes it: split over the
    devices if they are mapped."""
    if layout.strategy == "jit":
        return batch
    devices = layout.mesh.size

    def mapped(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((devices, x.shape[0] // devices, *x.shape[1:]), x.dtype)

    return jax.tree.map(mapped, batch)


def compiled(
    config: ConfigDict, model: nn.Module, layout: Layout, batch: Tree
) -> tuple[TrainState, jax.stages.Compiled]:
    """The abstract state, and the compiled step: the program that training has."""
    task = load_task(config.task)
    optimizer, step_function = loop.make_step(config, task.loss(config, model))
    init = functools.partial(init_params, model, task.example(config, 1))
    shapes = jax.eval_shape(lambda: init_state(init, optimizer, jax.random.key(0)))
    state = to_restore(shapes, layout)
    rows, length = (
        math.prod(jax.tree.leaves(batch)[0].shape[:-1]),
        jax.tree.leaves(batch)[0].shape[-1],
    )
    logging.info(
        "compiling the step for %s, (data, fsdp, tensor) = %s, %d rows of %d: seconds, "
        "for large models minutes",
        progress.counted(layout.mesh.size, "device"),
        *(tuple(layout.mesh.shape.values()), rows, length),
    )
    step = compile_step(step_function, layout, state)
    return state, step.lower(state, batch).compile()


def summed(sent: list[Collective]) -> list[dict]:
    """By kind and number of devices: how many a step, the bytes of their arrays on a device, and
    those that the device sends."""
    totals = collections.defaultdict(lambda: [0, 0, 0.0])
    for one in sent:
        total = totals[one.kind, len(one.group)]
        for i, value in enumerate((1, one.size, one.sent)):
            total[i] += one.count * value
    return [
        {"kind": kind, "group": group, "count": count, "bytes": size, "sent": round(out)}
        for (kind, group), (count, size, out) in sorted(totals.items())
    ]


def times(
    sent: list[Collective], flops: int | None, devices: int, kind: str, config: ConfigDict
) -> dict:
    """The seconds of a step and of the run: of computing or of communicating, what takes longer."""
    options, steps = config.plan, config.train.num_steps
    reached = devices * peak(kind) * options.share_of_peak
    computing = flops / reached if flops and reached else None
    rates = [options.bandwidth or rate(kind, one.group) for one in sent]
    known = all(rates)
    pairs = zip(sent, rates, strict=True)
    communicating = sum(one.count * one.sent / r for one, r in pairs) if known else None
    both = computing is not None and communicating is not None
    step = max(computing, communicating) if both else None
    return {
        "share_of_peak": options.share_of_peak,
        "compute_seconds": computing,
        "communication_seconds": communicating,
        "bound_by": None if step is None else "compute" if step == computing else "communication",
        "step_seconds": step,
        "step_seconds_without_overlap": computing + communicating if both else None,
        "num_steps": steps,
        "run_seconds": step and step * steps,
    }


def rate(kind: str, group: tuple[int, ...]) -> float:
    """Bytes/s that each device of a group sends; 0 if that is not known.

    A ring through several islands leaves each of them by the adapters of all its members there.
    """
    around = devices.surroundings(kind)
    if around is None:
        return 0.0
    together = sum(device // around.island == group[0] // around.island for device in group)
    if together == len(group):
        return around.inside
    return min(around.inside, together * around.outside)


def describe(found: dict) -> None:
    """Says it to a reader."""
    size = lambda count: f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"
    lines = [
        f"{found['parameters']:,} parameters, a checkpoint {size(found['checkpoint_bytes'])}",
        f"a batch has {found['rows']} rows of {found['length']} positions a side, "
        f"{found['empty_rows']} of them empty",
        "on each device:",
        *(f"  {size(count):>10}  {name}" for name, count in found["bytes_per_device"].items()),
    ]
    if found["memory"]:
        share = found["bytes_per_device"]["total"] / found["memory"]
        lines.append(
            f"  {100 * share:.0f} % of the {size(found['memory'])} that {found['device']} has"
        )
    lines.append("each device sends, a step:" if found["collectives"] else "nothing is sent")
    lines += [
        f"  {size(one['sent']):>10}  {one['count']} {one['kind']} of {size(one['bytes'])} among "
        f"{one['group']}"
        for one in found["collectives"]
    ]
    if not found["loops_counted"]:
        lines.append("  some are in loops of unknown length, and counted for one iteration")
    if found["flops_per_step"]:
        lines.append(
            f"FLOPs: {found['flops_per_step']:.3e} a step, {found['flops_per_run']:.3e} the run of "
            f"{found['num_steps']} steps"
        )
    if found["step_seconds"]:
        lines.append(
            f"{found['devices']} {found['device']} at {100 * found['share_of_peak']:.0f} % of the "
            f"peak: {1e3 * found['compute_seconds']:.2f} ms of computing a step, "
            f"{1e3 * found['communication_seconds']:.2f} ms of communication"
        )
        lines.append(
            f"bound by {found['bound_by']}: {1e3 * found['step_seconds']:.2f} ms a step, "
            f"{found['run_seconds'] / 3600:.2f} hours the run, if all of the other is hidden"
        )
    else:
        lines.append("no times: the peak or the links of the device are not known")
    for line in lines:
        logging.info("%s", line)
