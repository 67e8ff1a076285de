"""--mode=plan: estimates memory, FLOPs, communication and time of a training run.

The train step is compiled for abstract arrays, without allocating the model, and the numbers are
read from the compiled program.
"""

import functools
import json
import logging
from pathlib import Path
from types import ModuleType

import flax.linen as nn
import jax
from ml_collections import ConfigDict

from transformer.distributed.layout import Layout, bytes_per_device, make_layout, to_restore
from transformer.distributed.parallel_step import compile_step, rows_for_devices
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.runtime import progress, startup
from transformer.runtime.devices import HARDWARE, hardware
from transformer.tasks.task import init_params
from transformer.tools.plan import program, step_time, topologies
from transformer.tools.plan.collectives import find_collectives, summed
from transformer.training.update import TrainState, init_state, make_step


def plan(config: ConfigDict, workdir: Path) -> None:
    """Prints the plan as one JSON line, and logs it as text. Does not touch the workdir."""
    check(config)
    # Before the first use of JAX's devices, which fixes their number.
    if config.plan.num_devices or config.plan.topology:
        simulate(config.plan.num_devices or 1)
    if config.plan.topology:
        # A cached program for abstract devices cannot be loaded.
        jax.config.update("jax_enable_compilation_cache", False)
    estimates = planned(config, prepare.check(config))
    for line in table(estimates):
        logging.info("%s", line)
    print(json.dumps(estimates))


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.plan`."""
    options = config.plan
    if options.device and not hardware(options.device).peak:
        known = ", ".join(name for name, sheet in HARDWARE.items() if sheet.peak)
        raise UserError(f"config.plan.device must be one of {known}, found {options.device!r}")
    if options.topology:
        if options.num_devices or options.device:
            raise UserError(
                f"config.plan.topology={options.topology} determines the devices: leave "
                "config.plan.num_devices and config.plan.device as they are by default"
            )
        topologies.check(options.topology)


def simulate(num_devices: int) -> None:
    """Makes JAX simulate `num_devices` devices on the CPU; call it before JAX is initialised."""
    startup.schedule_for_memory()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", num_devices)


def planned(config: ConfigDict, task_module: ModuleType) -> dict:
    """Returns the plan {name: value}, in bytes, FLOPs and seconds; None for unknown values."""
    options, parallel = config.plan, config.parallel
    abstract_devices = topologies.abstract_devices(options.topology) if options.topology else ()
    layout = make_layout(parallel.strategy, parallel.mesh, options.num_devices, abstract_devices)
    model = task_module.model(config, task_module.sizes(config, None))
    # Texts are [rows, length]. Images have more dimensions and count as one position each.
    filled, *dimensions = jax.tree.leaves(task_module.example(config, 0))[0].shape
    length = dimensions[0] if len(dimensions) == 1 else 1
    # Padded with empty rows: the rows of each accumulated part are a multiple of the devices.
    rows = rows_for_devices(filled, layout.num_row_shards * config.train.accumulate)
    logging.info("compiling the step; this takes seconds, or minutes for a large model")
    batch = batch_on(layout, task_module.example(config, rows))
    with progress.waiting("compile the step"):
        state, step = compiled(config, task_module, model, layout, batch)
    memory = step.memory_analysis()
    sizes = {
        "parameters": bytes_per_device(state.params),
        "moments": bytes_per_device(state.opt_state),
        "batch": memory.argument_size_in_bytes - bytes_per_device(state),
        # Outputs that alias inputs (the donated state) need no memory of their own.
        "temporaries": memory.temp_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
    }
    flops = model.flops(rows, length) if hasattr(model, "flops") else None
    kind = options.device or layout.mesh.devices.flat[0].device_kind
    text = step.as_text()
    collectives = find_collectives(text, layout.mesh.size)
    cost = program.total(cost for _, cost in program.costs(text)) if options.topology else None
    work = step_time.Work(flops, collectives, layout.mesh.size, kind)
    program_times = step_time.program_times(work, cost, options.bandwidth) if cost else None
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(state.params)),
        "devices": layout.mesh.size,
        "device": kind,
        "strategy": layout.strategy,
        "mesh": tuple(layout.mesh.shape.values()),
        "rows": rows,
        "empty_rows": rows - filled,
        "length": length,
        "bytes_per_device": sizes | {"total": sum(sizes.values())},
        "memory": hardware(kind).memory_bytes or None,
        "checkpoint_bytes": sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state)),
        "flops_per_step": flops,
        "flops_per_run": flops and flops * config.train.num_steps,
        "collectives": summed(collectives),
        "program": program_times,
        **step_time.times(work, options, config.train.num_steps, program_times),
    }


def batch_on(layout: Layout, batch: dict) -> dict:
    """Returns an abstract batch in the shape that the compiled step takes.

    'jit' takes [rows, length], 'pmap' [devices, rows / devices, length].
    """
    if layout.strategy == "jit":
        return batch
    # The rows 0 1 2 3 of a batch on two devices become [[0 1], [2 3]].
    split = lambda x: x.reshape(layout.mesh.size, -1, *x.shape[1:])
    return jax.eval_shape(functools.partial(jax.tree.map, split), batch)


def compiled(
    config: ConfigDict, task_module: ModuleType, model: nn.Module, layout: Layout, batch: dict
) -> tuple[TrainState, jax.stages.Compiled]:
    """Returns the abstract state, and the compiled step: the same program as in training."""
    optimizer, step_function = make_step(config, task_module.loss(config, model))
    init = functools.partial(init_params, model, task_module.example(config, 1))
    shapes = jax.eval_shape(lambda: init_state(init(jax.random.key(0)), optimizer))
    state = to_restore(shapes, layout)
    return state, compile_step(step_function, layout, state).lower(state, batch).compile()


def table(values: dict, section: str = "") -> list[str]:
    """Returns the lines of a plan, or of one section; an unknown value is '-'."""
    # A section is indented by two spaces; a list (of collectives) has a line per entry.
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {line}" for line in table(value, name))]
        elif isinstance(value, list):
            rows = [", ".join(table(row)) for row in value]
            lines += [f"{name}:", *(f"  {row}" for row in rows or ["none"])]
        else:
            lines.append(f"{name} {_shown(f'{section} {name}', value)}")
    return lines


def _shown(name: str, value: object) -> str:
    """Returns a value as text, in the unit implied by its section and name."""
    # 'bytes_per_device total' is in bytes; 'run_seconds' also ends in 'seconds', so it comes first.
    if value is None:
        return "-"
    if "bytes" in name or name.endswith(("sent", "memory")):
        return f"{value / 1e9:.2f} GB" if value >= 1e8 else f"{value / 1e6:.2f} MB"
    if name.endswith("run_seconds"):
        return f"{value / 3600:.2f} h"
    if name.endswith("seconds"):
        return f"{1e3 * value:.2f} ms"
    if "flops" in name:
        return f"{value:.3e}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
