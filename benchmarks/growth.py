"""How a training run's cost grows: target tokens/s and memory.

    python -m benchmarks.growth --picture growth.svg
    python -m benchmarks.growth --axes "" --text FOLDER

Three axes, each alone: the number of pieces, the length of rows at a fixed number of positions,
and JAX's simulated CPU devices at a fixed batch, in steps of a small model on random ids that fill
every position. With --text also the text: launch.py on the corpus of configs/multi30k.py in FOLDER,
its training pairs once, 10 and 100 times, from files through a vocabulary of 5,000 pieces to its
60th step, without caches. Each point takes turns in a process of its own, with the allocator that
launch.py sets up; medians are printed. The start is the time to the first step. The exponent k is
that of the last two points: seconds a token, or bytes, grow between them as x^k.
"""

import argparse
import datetime
import gzip
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import yardstick

AXES = {
    "vocabulary": (4000, 8000, 16_000, 32_000, 64_000),
    "row": (64, 128, 256, 512, 1024, 2048),
    "devices": (1, 2, 4, 8),
}
COPIES = (1, 10, 100)  # of the text
QUANTITIES = {"target tokens/s": (1000, 2000, 4000, 8000, 16_000), "memory, GB": (1, 2, 4, 8)}
POSITIONS = 4096  # of a step, per side
STEPS = 60  # of launch.py, of which 21 to 40 are timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axes", default=",".join(AXES))
    parser.add_argument("--text", type=Path, help="a folder with train.en.gz, val.de.gz, ...")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn's steps")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    parser.add_argument("--json", type=Path, help="a file for {axis: {value: [tokens/s, GB, s]}}")
    parser.add_argument("--engine", help="one point, axis=value (for the program itself)")
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(turn(arguments)))
    else:
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Lets the points take turns, and prints a row for each and the exponents of each axis."""
    axes = {name: AXES[name] for name in arguments.axes.split(",") if name}
    axes |= {"text": COPIES} if arguments.text else {}
    points = {f"{axis}={x}": sys.executable for axis in axes for x in axes[axis]}
    taken = yardstick.take_turns("benchmarks.growth", points, arguments.turns)
    measured = {axis: {} for axis in axes}
    print("point             tokens/s   memory, GB     start, s")
    for point, turns in taken.items():
        axis, value = point.split("=")
        middle = [statistics.median(t[i] for t in turns) for i in range(3)]
        measured[axis][int(value)] = middle
        print(f"{point:16} {middle[0]:9,.0f} {middle[1]:12.2f} {middle[2]:12.1f}", flush=True)
    for axis, values in measured.items():
        times = exponent({x: 1 / rate for x, (rate, _, _) in values.items()})
        memory = exponent({x: size for x, (_, size, _) in values.items()})
        print(f"{axis}: k of seconds a token {times:+.2f}, of memory {memory:+.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured), "utf-8")
    if arguments.picture:
        draw(measured, arguments.picture)


def exponent(costs: dict[int, float]) -> float:
    """The k of x^k between the last two of {x: cost}."""
    (x, before), (y, after) = list(costs.items())[-2:]
    return math.log(after / before) / math.log(y / x)


def turn(arguments: argparse.Namespace) -> list[float]:
    """A point's target tokens a second, its process's peak memory in GB, and seconds to start."""
    axis, value = arguments.engine.split("=")
    if axis == "text":
        return measure_run(arguments.text, int(value))
    return measure_step(axis, int(value), arguments.seconds)


def measure_step(axis: str, value: int, seconds: float) -> list[float]:
    """Measures a training step on random ids."""
    import jax

    begun = time.perf_counter()
    if axis == "devices":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", value)
    n = value if axis == "row" else 64
    V = value if axis == "vocabulary" else yardstick.SIZES["small"]["V"]
    sizes = {"V": V, "B": POSITIONS // n, "S": n, "T": n}
    step = yardstick.training_step(*yardstick.transformer("small", "float32", V=V), sizes)
    step()
    first = time.perf_counter() - begun
    step()
    times = yardstick.timed(step, least=3, seconds=seconds)
    peak = yardstick.peak_memory(resource.getrusage(resource.RUSAGE_SELF))
    return [POSITIONS / statistics.median(times), peak, first]


def measure_run(folder: Path, copies: int) -> list[float]:
    """Measures launch.py on so many copies of the training text."""
    from transformer.workdir import log

    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for file in (x for x in folder.glob("*.gz") if x.name.split(".")[1] in ("en", "de")):
            text = gzip.decompress(file.read_bytes())
            repeated = text * copies if file.name.startswith("train.") else text
            (place / file.name).write_bytes(gzip.compress(repeated, 1))
        keys = {
            "data.directory": place,
            "train.num_steps": STEPS,
            "train.log_every": STEPS // 3,
            "data.data_dir": place / "ids",
            "compilation_cache": "",
            "evaluate.every": 0,
            "evaluate.split": "validation",
        }
        command = [sys.executable, "launch.py", "--config=configs/multi30k.py"]
        command += [f"--workdir={place / 'run'}", *(f"--config.{k}={x}" for k, x in keys.items())]
        begun = time.time()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, command
        steps = [x for x in log.read(place / "run") if x["kind"] == "train"]
        [start] = log.read(place / "run", log.STARTS)
        prepared = datetime.datetime.fromisoformat(start["time"]).timestamp() - begun
        return [steps[1]["tokens_per_second"], yardstick.peak_memory(usage), prepared]


def draw(measured: dict[str, dict], picture: Path) -> None:
    """Draws tokens/s and memory against each axis, on logarithmic scales."""
    from transformer.tools.pages import charts

    rows = []
    for i, (y, ticks) in enumerate(QUANTITIES.items()):
        panels = []
        for axis, points in measured.items():
            values = [{axis: int(x), y: costs[i]} for x, costs in points.items()]
            panels.append(panel(values, axis, y, ticks))
        rows.append({"hconcat": panels})
    picture.write_text(charts.svg({"vconcat": rows}), "utf-8")


def panel(values: list[dict], x: str, y: str, ticks: tuple[float, ...]) -> dict:
    """A chart of y by x."""

    def scaled(name: str, ticks: Sequence[float]) -> dict:
        scale = {"type": "log", "base": 2, "nice": False, "domain": [min(ticks), max(ticks)]}
        axis = {"values": ticks, "labelOverlap": False}
        return {"field": name, "type": "quantitative", "scale": scale, "axis": axis}

    return {
        **{"width": 200, "height": 140, "data": {"values": values}},
        "mark": {"type": "line", "point": True},
        "encoding": {"x": scaled(x, [value[x] for value in values]), "y": scaled(y, ticks)},
    }


if __name__ == "__main__":
    main()
