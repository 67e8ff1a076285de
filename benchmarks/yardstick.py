"""What the benchmarks share: two models, and engines that take turns.

Another engine's Python may import this: it needs nothing of ours before a model is asked for.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

SIZES = {
    "small": {"V": 8000, "D": 256, "H": 4, "F": 1024, "L": 3},
    "base": {"V": 37000, "D": 512, "H": 8, "F": 2048, "L": 6},
}


def transformer(size: str, dtype: str) -> tuple:
    """(config, model), of random parameters' shapes."""
    from configs import wmt_base
    from transformer import models

    sizes, config = SIZES[size], wmt_base.get_config()
    names = {"d_model": "D", "d_ff": "F", "num_heads": "H", "num_layers": "L"}
    config.model.update({name: sizes[letter] for name, letter in names.items()})
    config.model.dtype = dtype
    vocabulary = {f"{side}_vocab_size": sizes["V"] for side in ("source", "target")}
    return config, models.build(config.architecture, config.model.to_dict(), **vocabulary)


def take_turn(
    module: str,
    engine: str,
    *options: str,
    environment: Mapping[str, str],
    python: str = sys.executable,
) -> dict:
    """What an engine's turn prints, JSON on its last line, in a process of its own."""
    command = [python, "-m", module, *sys.argv[1:], "--engine", engine, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def timed(run: Callable[[], object], *, least: int, seconds: float) -> Sequence[float]:
    """How long each run takes, of at least so many, for at least so many seconds."""
    times, begun = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times
