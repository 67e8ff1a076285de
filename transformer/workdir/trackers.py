"""Logs a run's numbers to Weights & Biases and MLflow, if config.train.trackers names them.

Each package reads its own environment variables (WANDB_PROJECT, WANDB_MODE, MLFLOW_TRACKING_URI,
MLFLOW_EXPERIMENT_NAME, ...). WORKDIR/trackers.json keeps the id that a tracker gave the run: a
resumed run goes on in the same curves.
"""

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import json_files, paths

IDS = "trackers.json"


class Tracker(NamedTuple):
    """A run that is open in a tracker."""

    id: str
    write: Callable[[int, dict], object]  # (step, numbers)
    close: Callable[[], object]


def wandb(run_id: str | None, workdir: Path, config: dict) -> Tracker:
    """Opens the run in Weights & Biases; `run_id` None: a new one."""
    import wandb

    folder = None if paths.in_bucket(workdir) else workdir
    run = wandb.init(id=run_id, resume="allow", name=workdir.name, dir=folder, config=config)
    # W&B's own step can only go up, but a resumed run logs the steps after its checkpoint again. So
    # the x-axis of all curves is a number that we log, 'step'.
    run.define_metric("*", step_metric="step")
    return Tracker(run.id, lambda step, numbers: run.log({"step": step, **numbers}), run.finish)


def mlflow(run_id: str | None, workdir: Path, config: dict) -> Tracker:
    """Opens the run in MLflow; `run_id` None: a new one."""
    import mlflow

    run = mlflow.start_run(run_id=run_id, run_name=workdir.name)
    if run_id is None:
        mlflow.log_dict(config, "config.json")
    write = lambda step, numbers: mlflow.log_metrics(numbers, step=step)
    return Tracker(run.info.run_id, write, mlflow.end_run)


TRACKERS = {"wandb": wandb, "mlflow": mlflow}


def check(names: str) -> None:
    """Raises UserError unless `names`, with commas between, are trackers that are installed."""
    for name in filter(None, names.split(",")):
        if name not in TRACKERS:
            known = " or ".join(TRACKERS)
            raise UserError(f"config.train.trackers must be {known}, or both, found {name!r}")
        if not importlib.util.find_spec(name):
            raise UserError(f"config.train.trackers: {name} is missing: pip install {name}")


def start(names: str, workdir: Path, config: dict) -> list[Tracker]:
    """Opens the run in each of `names`; [] in all processes but the first.

    UserError if a tracker does not start, before anything is trained.
    """
    if not names or not processes.is_first():
        return []
    file, trackers = workdir / IDS, []
    ids = json_files.read_object(file) if file.exists() else {}
    for name in filter(None, names.split(",")):
        try:
            trackers.append(TRACKERS[name](ids.get(name), workdir, config))
        except Exception as error:  # whatever a service answers
            close(trackers)
            raise UserError(f"config.train.trackers: {name} did not start: {error}") from error
        # Written for each: should the next one not start, a second try goes on in this one's run.
        ids[name] = trackers[-1].id
        json_files.write(file, ids)
    return trackers


def write(trackers: list[Tracker], kind: str, step: int, values: dict) -> None:
    """Writes a log line's numbers as 'train/loss', ...; texts are in metrics.jsonl alone.

    A tracker that fails is dropped from the list, with an error in the log: a service that is down
    is no reason not to train.
    """
    numbers = {f"{kind}/{k}": float(v) for k, v in values.items() if isinstance(v, int | float)}
    # Over a copy, because a tracker that fails is removed from the list.
    for tracker in list(trackers):
        try:
            tracker.write(step, numbers)
        except Exception as error:  # of any kind: packages of others, and what a service answers
            logging.error("run %s is no longer tracked from step %d: %s", tracker.id, step, error)
            trackers.remove(tracker)


def close(trackers: list[Tracker]) -> None:
    """Closes the runs; this may wait until all numbers have reached the services."""
    for tracker in trackers:
        try:
            tracker.close()
        except Exception as error:  # of any kind, as in `write`; what was trained is saved
            logging.error("run %s: %s", tracker.id, error)
