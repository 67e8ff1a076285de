"""How full packed rows are and how fast batches are put together, on one core.

    python -m benchmarks.batches --config=configs/quickstart.py
    python -m benchmarks.batches --config=configs/multi30k.py --config.data.directory=FOLDER

Takes what launch.py takes; the vocabulary is learnt into a folder that is thrown away.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from transformer.modes import command_line, prepare

ROUNDS = 9


def main(arguments: list[str]) -> None:
    """Prints one line: the shares of source and target filled, and pairs a second."""
    if hasattr(os, "sched_setaffinity"):  # Linux
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    config = command_line.parse(arguments)[2]
    with tempfile.TemporaryDirectory() as workdir:
        task = prepare.prepare(config, Path(workdir))
    training, pairs = task.batches, len(task.batches.items)
    seconds = []
    for epoch in range(ROUNDS):
        start = time.perf_counter()
        for t in range(epoch * len(training), (epoch + 1) * len(training)):
            training[t]
        seconds.append(time.perf_counter() - start)
    rate = pairs / statistics.median(seconds)
    print(f"{task.about}; {rate:,.0f} pairs/s (median of {ROUNDS} epochs, one core)")


if __name__ == "__main__":
    main(sys.argv[1:])
