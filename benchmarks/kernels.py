"""The kernels of a trace that take most time.

    python launch.py --mode=profile --config=configs/wmt_base.py --workdir=runs/profile
    python -m benchmarks.kernels runs/profile --steps=3    # or a --trace of benchmarks.train_step

Of an accelerator these are what its streams or cores ran, of a CPU what XLA's threads ran. Times
are summed over devices, streams and threads. On CPUs and TPUs a loop's time includes that of its
kernels, which are listed as well.
"""

import argparse
import collections
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path

TRACE = "perfetto_trace.json.gz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workdir", type=Path)
    parser.add_argument("--steps", type=int, default=3, help="config.profile.steps of the trace")
    parser.add_argument("--longest", type=int, default=25)
    arguments = parser.parse_args()
    files = sorted(arguments.workdir.glob(f"profile/**/{TRACE}"))
    if not files:
        parser.error(f"no profile/**/{TRACE} in {arguments.workdir}")
    with gzip.open(files[-1]) as file:  # the folders' names are times
        events = json.load(file)
    report(kernels(events["traceEvents"]), arguments)


def kernels(events: Iterable[dict]) -> dict[str, list[float]]:
    """Returns {kernel: its durations in ms}; names that differ by a last number are one kernel."""
    processes, threads = {}, {}
    for event in events:
        if event.get("name") == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event.get("name") == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    if any(name.startswith("/device:") for name in processes.values()):
        processes = {pid: name for pid, name in processes.items() if name.startswith("/device:")}
    durations = collections.defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event["pid"] in processes:
            thread = threads.get((event["pid"], event["tid"]), "")
            if is_kernel(processes[event["pid"]], thread, event["name"]):
                name = re.sub(r"([._]\d+)+$", "", event["name"])
                durations[name].append(event["dur"] / 1e3)
    return durations


def is_kernel(process: str, thread: str, name: str) -> bool:
    """Whether an event of a trace is a device's kernel, not one of the host's calls."""
    if "/device:GPU" in process:
        return "Stream" in thread
    if "/device:TPU" in process:
        return thread == "XLA Ops"
    # ThunkExecutor::Execute runs kernels, and "end: X" marks where X ended.
    return thread.startswith("tf_XLA") and not re.search("::|^end: ", name)


def report(durations: dict[str, list[float]], arguments: argparse.Namespace) -> None:
    steps = arguments.steps
    total = sum(map(sum, durations.values()))
    count = sum(map(len, durations.values()))
    print(f"{total / steps:.2f} ms in {count / steps:.0f} kernels a step")
    print("ms a step | share | times a step | kernel")
    longest = sorted(durations.items(), key=lambda item: -sum(item[1]))[: arguments.longest]
    for name, times in longest:
        ms = sum(times)
        print(f"{ms / steps:9.3f} {ms / total:7.1%} {len(times) / steps:14.1f}   {name[:80]}")


if __name__ == "__main__":
    main()
