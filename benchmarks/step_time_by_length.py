"""The time of a training step against sentence length, of recurrent models and the Transformer.

    python -m benchmarks.step_time_by_length
    python -m benchmarks.step_time_by_length --picture steps.svg --lengths 16,64,256
    python -m benchmarks.step_time_by_length --sweep configs/sweeps/boxes.toml --lengths 64

Every step has the same number of target positions, and as many source positions: the rows get fewer
as they get longer. A recurrent model computes the positions of a row one after the other, so that
its step takes longer the longer the rows are; attention computes them at once, but compares each
with each. --configs are those of models of about equal size, or --sweep names a file of rows; each
takes turns in a process of its own, with the allocator that launch.py sets up, and the medians are
printed.
"""

import argparse
import json
import shlex
import statistics
import sys
from pathlib import Path

from benchmarks import yardstick

CONFIGS = (
    "configs/multi30k.py",
    "configs/multi30k_rnn.py:none",
    "configs/multi30k_rnn.py:additive",
    "configs/multi30k_rnn.py:dot",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", default=",".join(CONFIGS))
    parser.add_argument("--sweep", type=Path, help="a file of --mode=sweep, for its rows")
    parser.add_argument("--lengths", default="8,16,32,64,128", help="positions of a row")
    parser.add_argument("--positions", type=int, default=2048, help="of a step, per side")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each length in a turn")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    parser.add_argument("--json", type=Path, help="a file for {config: ms of each length}")
    parser.add_argument("--engine", help="one command line's turn (for the program itself)")
    arguments = parser.parse_args()
    if arguments.engine:
        turn(arguments)
    else:
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Lets the configs take turns, and prints a row for each."""
    labels = engines(arguments)
    pythons = dict.fromkeys(labels, sys.executable)
    lengths, module = lengths_of(arguments), "benchmarks.step_time_by_length"
    taken = yardstick.take_turns(module, pythons, arguments.turns)
    print("ms a step of rows of   " + "".join(f"{n:>9}" for n in lengths) + "   params")
    times = {}
    for engine, turns in taken.items():
        name = labels[engine]
        times[name] = [
            1e3 * statistics.median(t["seconds"][str(n)] for t in turns) for n in lengths
        ]
        label = name.removeprefix("configs/").replace(".py", "")
        cells = "".join(f"{t:9.1f}" for t in times[name])
        print(f"{label:23}{cells}   {turns[0]['params']:,}")
    if arguments.json:
        arguments.json.write_text(json.dumps(times), "utf-8")
    if arguments.picture:
        draw(times, lengths, arguments)


def engines(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns {command line of a run: its label}, of configs or of the rows of a sweep's file."""
    if not arguments.sweep:
        return {f"--config={name}": name for name in arguments.configs.split(",")}
    from transformer.tools.sweep import sweep_file

    rows = sweep_file.read(arguments.sweep, Path("runs"), ["--config.data.directory=."])
    return {shlex.join(row.runs[0].arguments): row.name for row in rows}


def lengths_of(arguments: argparse.Namespace) -> list[int]:
    return [int(length) for length in arguments.lengths.split(",")]


def turn(arguments: argparse.Namespace) -> None:
    """One config's turn: the median of its step's seconds at each length, as JSON."""
    import jax

    from transformer.models import fields as model_fields
    from transformer.modes import command_line
    from transformer.runtime import startup
    from transformer.tasks import translation
    from transformer.tasks.task import abstract_params

    _, _, config = command_line.parse(shlex.split(arguments.engine))
    config = config.copy_and_resolve_references()
    startup.set_compilation_cache(config.compilation_cache)
    V, seconds = config.vocabulary.size, {}
    vocabulary = {f"{side}_vocab_size": V for side in ("source", "target")}
    model = model_fields.build(config.architecture, config.model.to_dict(), **vocabulary)
    params = abstract_params(model, translation.example(config, 1))
    for n in lengths_of(arguments):
        sizes = {"V": V, "B": max(1, arguments.positions // n), "S": n, "T": n}
        step = yardstick.training_step(config, model, sizes)
        for _ in range(2):
            step()
        times = yardstick.timed(step, least=3, seconds=arguments.seconds)
        seconds[n] = statistics.median(times)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(json.dumps({"seconds": seconds, "params": count}))


def draw(times: dict[str, list[float]], lengths: list[int], arguments: argparse.Namespace) -> None:
    """Draws a line for each config."""
    from benchmarks import table1
    from transformer.tools.pages import charts

    x, y = "positions of a row", "ms a training step"
    values = [
        {x: n, y: milliseconds, "config": name}
        for name, of_config in times.items()
        for n, milliseconds in zip(lengths, of_config, strict=True)
    ]
    title = f"{arguments.positions} positions in a step"
    chart = table1.panel(title, values, x, y, "config", {"zero": True})
    arguments.picture.write_text(charts.svg(chart), "utf-8")


if __name__ == "__main__":
    main()
