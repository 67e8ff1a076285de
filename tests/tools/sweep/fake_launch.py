"""Stands for launch.py in the tests of a sweep: leaves what a run leaves, in no time.

The row's name decides what `train` does: 'bad' fails; 'slow' waits for SIGTERM, stops the later the
higher its seed is, and resumes when it is started again.
"""

import json
import os
import pathlib
import signal
import sys
import time

START = {"parameters": 1234567, "processes": 1, "devices": 1, "time": "2026-11-25"}
START |= {"device": "cpu", "strategy": "pmap", "data": "600 training pairs"}


def train(workdir, keys):
    row, _, seed = workdir.name.rpartition("-seed")
    if row == "bad":
        print(f"{workdir}: nothing but trouble\n", file=sys.stderr)
        sys.exit(2)
    workdir.mkdir(exist_ok=True)
    config = {"task": "translation", "train": {"seed": int(seed)}}
    config["model"] = {"d_model": int(keys.get("model.d_model", 256))}
    (workdir / "config.json").write_text(json.dumps(config))
    started = (workdir / "checkpoints").exists()
    (workdir / "checkpoints" / "10").mkdir(parents=True, exist_ok=True)
    (workdir / "checkpoints" / "10" / "checksums.json").touch()
    append(workdir / "starts.jsonl", {"step": 10 * started, **START})
    steps = int(keys["train.num_steps"])
    append(workdir / "metrics.jsonl", {"kind": "train", "step": steps // 2, "step_seconds": 0.5})
    if row == "slow" and not started:
        signal.signal(signal.SIGTERM, lambda *_: stop(0.3 * int(seed)))
        (workdir / "waits").touch()
        time.sleep(60)
    scores = {"bleu": 20.0 + int(seed) + 10 * (row != "base"), "loss": 1.5}
    result = {"split": "test", "set": "test", **scores}
    append(workdir / "metrics.jsonl", {"kind": "test", "step": steps, **result})
    names = ("GPU", "SLURM_STEP_NODELIST")
    print(json.dumps({**result, "env": {x: os.environ.get(x) for x in names}}))


def stop(seconds):
    time.sleep(seconds)  # as saving takes
    print("Terminated")
    sys.exit(143)


def compare(workdirs):
    """Prints what --mode=compare prints; runs with seed 1 cannot be compared."""
    if "seed1" in workdirs[1].name:
        print("launch.py: they are of different sets", file=sys.stderr)
        sys.exit(2)
    results = [(x / "metrics.jsonl").read_text().splitlines()[-1] for x in workdirs]
    bleu = [{"value": json.loads(x)["bleu"], "p": 0.04} for x in results]
    scores = [{"chrf": {"value": 1.0, "p": 0.5}, "bleu": x} for x in bleu]
    tests = {"chrf": "paired", "bleu": "paired bootstrap"}
    print(json.dumps({"tests": tests, "runs": [{"scores": x} for x in scores]}))


def append(file, line):
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps(line)}\n")


if __name__ == "__main__":
    folders = [pathlib.Path(x) for x in sys.argv[1:] if not x.startswith("--")]
    flags = dict(x.lstrip("-").split("=", 1) for x in sys.argv[1:] if x.startswith("--"))
    if flags.get("mode") == "compare":
        compare(folders)
    else:
        keys = {name.removeprefix("config."): value for name, value in flags.items()}
        train(pathlib.Path(flags["workdir"]), keys)
