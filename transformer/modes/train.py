"""--mode=train: trains in a workdir, or resumes there, then scores the test split."""

import contextlib
import importlib.util
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from ml_collections import ConfigDict

from transformer import registry
from transformer.checkpoints import store
from transformer.distributed import processes
from transformer.distributed.layout import make_layout
from transformer.errors import UserError, check_value
from transformer.modes import evaluate, prepare
from transformer.runtime import lock
from transformer.training import loop
from transformer.workdir import results
from transformer.workdir.log import OnLog


def train(config: ConfigDict, workdir: Path) -> None:
    """Trains from the workdir's newest checkpoint, or from scratch, then scores the test split.

    If signalled to stop (SIGTERM, SIGHUP, SIGUSR1, Ctrl-C), saves after the current step and exits
    with status 143. Before the first step, a signal ends the process as usual. Collective.
    """
    step, result = run(config, workdir, processes.stop_signals)
    if result is None:
        # The status of SIGTERM, 128 + 15 = 143, for every signal.
        logging.info("stopped and saved at step %d; the same command resumes there", step)
        sys.exit(128 + signal.SIGTERM)


def run(
    config: ConfigDict, workdir: Path, stop_signals: loop.StopSignals, on_log: OnLog | None = None
) -> tuple[int, dict | None]:
    """Trains and scores; returns the step reached and the result, None if stopped.

    `on_log` gets each line of metrics.jsonl, and replaces the printed result. Collective.
    """
    # Before the lock, so that a config that cannot train leaves no workdir behind.
    layout = make_layout(config.parallel.strategy, config.parallel.mesh)
    store.check_path(workdir)
    task_module = prepare.check(config)
    check(config)
    # Locked until the score is logged, because a second run would write the same files.
    with lock.locked(workdir):
        config = prepare.prepare_workdir(task_module, config, workdir)
        task = task_module.build(config, workdir)
        with trackers(config, workdir) as tracked:
            listeners = [*tracked, *filter(None, [on_log])]
            step, stopped = loop.run(config, task, workdir, layout, stop_signals, listeners)
            if stopped:
                return step, None
            result = evaluate.score_split(config, workdir, once=True, quiet=on_log is not None)
            results.log_final(workdir, step, result, listeners)
    return step, result


def check(config: ConfigDict) -> None:
    """Raises UserError for a wrong tracker, and warns of a run that ends within its warm-up."""
    for name in filter(None, config.train.trackers.split(",")):
        check_value("train.trackers", name, tuple(registry.TRACKERS))
        if not importlib.util.find_spec(name):
            raise UserError(f"config.train.trackers: {name} is missing: pip install {name}")
    num_steps = config.train.num_steps
    warmup_steps = config.optimizer.schedule.get("warmup_steps", 0)
    if num_steps < warmup_steps and processes.is_first():
        message = (
            "config.train.num_steps=%d ends within the warm-up, below the peak of the learning "
            "rate: consider config.optimizer.schedule.warmup_steps=%d"
        )
        logging.warning(message, num_steps, -(-num_steps // 3))


@contextlib.contextmanager
def trackers(config: ConfigDict, workdir: Path) -> Iterator[list[OnLog]]:
    """Opens the run in config.train.trackers, in process 0; yields listeners to log lines."""
    names = config.train.trackers.split(",") if processes.is_first() else ()
    opens = [registry.load(registry.TRACKERS[name]) for name in filter(None, names)]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(tracked(workdir, config.to_dict())) for tracked in opens]
