"""Sends a run's numbers to Weights & Biases and to MLflow.

Each package reads its own environment variables (WANDB_PROJECT, WANDB_MODE, MLFLOW_TRACKING_URI,
MLFLOW_EXPERIMENT_NAME, ...). WORKDIR/trackers.json keeps the run's id in each service, so that a
resumed run continues its curves.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from transformer.errors import UserError
from transformer.runtime import paths

IDS = "trackers.json"

OnLog = Callable[[dict], object]
# (id, (step, numbers) -> None, () -> None that waits until all numbers are sent)
OpenRun = tuple[str, Callable[[int, dict], object], Callable[[], object]]


def wandb(workdir: Path, config: dict) -> contextlib.AbstractContextManager[OnLog]:
    """Opens the run in Weights & Biases, see `tracked`."""

    def start(run_id: str | None) -> OpenRun:
        import wandb

        folder = None if paths.in_bucket(workdir) else workdir
        run = wandb.init(id=run_id, resume="allow", name=workdir.name, dir=folder, config=config)
        # W&B's own step can only increase, but a resumed run logs the steps after its checkpoint
        # again. So the x-axis is a logged number, 'step'.
        run.define_metric("*", step_metric="step")
        return run.id, lambda step, numbers: run.log({"step": step, **numbers}), run.finish

    return tracked("wandb", start, workdir)


def mlflow(workdir: Path, config: dict) -> contextlib.AbstractContextManager[OnLog]:
    """Opens the run in MLflow, see `tracked`."""

    def start(run_id: str | None) -> OpenRun:
        import mlflow

        run = mlflow.start_run(run_id=run_id, run_name=workdir.name)
        if run_id is None:
            mlflow.log_dict(config, "config.json")
        send = lambda step, numbers: mlflow.log_metrics(numbers, step=step)
        return run.info.run_id, send, mlflow.end_run

    return tracked("mlflow", start, workdir)


@contextlib.contextmanager
def tracked(name: str, start: Callable[[str | None], OpenRun], workdir: Path) -> Iterator[OnLog]:
    """Opens the run in a service by `start(id, or None for a new run)`; yields its `OnLog`.

    Numbers are sent as 'train/loss', ...; texts are only in metrics.jsonl. UserError if the service
    does not start; after a later failure, an error is logged and training continues without it.
    """
    file, has_failed = workdir / IDS, False
    ids = paths.read_json_object(file) if file.exists() else {}
    try:
        run_id, send, close = start(ids.get(name))
    except Exception as error:  # of any type: packages have their own, for network, login, ...
        raise UserError(f"config.train.trackers: {name} did not start: {error}") from error
    paths.write_json(file, {**ids, name: run_id})

    def attempt(call: Callable, *arguments: object) -> None:
        nonlocal has_failed
        try:
            if not has_failed:
                call(*arguments)
        except Exception as error:  # of any type; training must go on
            has_failed = True
            logging.error("logging to %s stopped: %s", name, error)

    def on_log(line: dict) -> None:
        numbers = {f"{line['kind']}/{k}": x for k, x in line.items() if isinstance(x, int | float)}
        del numbers[f"{line['kind']}/step"]
        attempt(send, line["step"], numbers)

    try:
        yield on_log
    finally:
        attempt(close)
