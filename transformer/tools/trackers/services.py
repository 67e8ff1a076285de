"""Opens a run in Weights & Biases and in MLflow.

Each package reads its own environment variables (WANDB_PROJECT, WANDB_MODE, MLFLOW_TRACKING_URI,
MLFLOW_EXPERIMENT_NAME, ...).
"""

from pathlib import Path

from transformer.runtime import paths
from transformer.workdir.trackers import Tracker


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
