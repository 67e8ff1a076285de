"""What the benchmarks share: three models, a training step, and engines that take turns.

Another engine's Python may import this: it needs nothing of ours before a model is asked for.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SIZES = {
    "small": {"V": 8000, "D": 256, "H": 4, "F": 1024, "L": 3},
    "base": {"V": 37000, "D": 512, "H": 8, "F": 2048, "L": 6},
    "big": {"V": 37000, "D": 1024, "H": 16, "F": 4096, "L": 6},
}


def transformer(size: str, dtype: str, dropout_rate: float = 0.1, **changes: int) -> tuple:
    """Returns (config, model) of one of SIZES, with `changes` to it, such as V=4000."""
    from configs import wmt_base
    from transformer.models import fields as model_fields

    sizes = SIZES[size] | changes
    config = wmt_base.get_config()
    names = {"d_model": "D", "d_ff": "F", "num_heads": "H", "num_layers": "L"}
    config.model.update({name: sizes[letter] for name, letter in names.items()})
    config.model.update(dtype=dtype, dropout_rate=dropout_rate)
    vocabulary = {f"{side}_vocab_size": sizes["V"] for side in ("source", "target")}
    return config, model_fields.build(config.architecture, config.model.to_dict(), **vocabulary)


def training_step(
    config: Any, model: Any, sizes: Mapping[str, int], num_devices: int = 0
) -> Callable[..., float]:
    """Returns a function that makes updates, see `updates`, on random ids.

    Ids [B, S] and [B, T] are below V. No position is padding.
    """
    import numpy as np

    from transformer.tasks import translation

    V, B, S, T = (sizes[letter] for letter in "VBST")
    random = np.random.default_rng(0)
    source, targets = (random.integers(4, V, (B, n)).astype(np.int32) for n in (S, T))
    inputs = {"source": source, "target": np.roll(targets, 1)}
    for side, n in (("source", S), ("target", T)):
        inputs[f"{side}_positions"] = np.tile(np.arange(n, dtype=np.int32), (B, 1))
        inputs[f"{side}_segments"] = np.ones((B, n), np.int32)
    batch = {"inputs": inputs, "targets": targets, "weights": np.ones((B, T), np.float32)}
    return updates(config, model, translation, batch, num_devices)


def updates(
    config: Any, model: Any, task: Any, batch: dict, num_devices: int = 0
) -> Callable[..., float]:
    """Returns a function that makes `count` updates on a task's batch, and returns the last loss.

    The batch stays on the devices, all of them by default. On accelerators an update is dispatched
    while they compute those before it, as in training.
    """
    import functools
    import gc

    import jax

    from transformer.distributed.layout import make_layout
    from transformer.distributed.parallel_step import compile_step, shard_batch
    from transformer.models import kernels
    from transformer.runtime import startup
    from transformer.tasks.task import init_params
    from transformer.training.start import restore_or_init
    from transformer.training.update import make_step

    startup.compute_in_calling_thread()  # all four as in launch.py
    kernels.use(config.kernels)
    startup.schedule_for_memory()
    gc.set_threshold(startup.NEW_OBJECTS)
    optimizer, train_step = make_step(config, task.loss(config, model))
    init = functools.partial(init_params, model, task.example(config, 1))
    layout = make_layout(config.parallel.strategy, num_devices=num_devices)
    state = restore_or_init(init, optimizer, 0, None, layout)
    compiled = compile_step(train_step, layout, state)

    def rows(start: int, stop: int) -> dict:
        return jax.tree.map(lambda x: x[start:stop], batch)

    placed = shard_batch(rows, len(batch["targets"]), layout)

    def step(count: int = 1) -> float:
        nonlocal state
        for _ in range(count):
            state, sums = compiled(state, placed)
        jax.block_until_ready(state)
        return float(sums["loss"])

    return step


def take_turn(
    module: str,
    engine: str,
    *options: str,
    environment: Mapping[str, str],
    python: str = sys.executable,
) -> dict:
    """Runs an engine's turn in a process of its own, and returns the JSON of its last line."""
    command = [python, "-m", module, *sys.argv[1:], f"--engine={engine}", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    line = done.stdout.splitlines()[-1]
    print(f"{engine}: {line.decode()}", file=sys.stderr, flush=True)
    return json.loads(line)


def take_turns(
    module: str, pythons: Mapping[str, str], turns: int, *options: str, kept_memory: bool = True
) -> dict[str, list[dict]]:
    """Returns {engine: what its turns print}; `pythons` is {engine: its Python}.

    In each of the `turns` all engines have a turn, one after the other.

    Memory is kept by the allocator that launch.py sets up, unless `kept_memory` is False.
    """
    from transformer.runtime.startup import ALLOCATOR

    environment = {**os.environ, **(ALLOCATOR if kept_memory else {})}
    taken = {engine: [] for engine in pythons}
    for _ in range(turns):
        for engine, python in pythons.items():
            result = take_turn(module, engine, *options, environment=environment, python=python)
            taken[engine].append(result)
    return taken


def peak_memory(usage: Any) -> float:
    """Returns the peak memory of a process in GB; Linux gives its resource usage in KiB."""
    return usage.ru_maxrss * 1024 / 1e9


def timed(run: Callable[[], object], *, least: int, seconds: float) -> Sequence[float]:
    """Returns the seconds of each run, of at least `least` runs that take `seconds` in all."""
    times, begun = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times
