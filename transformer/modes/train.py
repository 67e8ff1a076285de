"""--mode=train: training in a workdir, from its newest checkpoint on, and the final score."""

import logging
import signal
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.distributed import processes
from transformer.distributed.layout import make_layout
from transformer.modes import evaluate, prepare
from transformer.monitoring import results
from transformer.storage import lock
from transformer.training import loop


def train(config: ConfigDict, workdir: Path) -> None:
    """Trains, or goes on where the workdir stands, then scores the test split.

    Signalled to stop (SIGTERM, SIGHUP, SIGUSR1, Ctrl-C), it saves after the step in flight and
    exits with 143. Before the first step a signal ends the process: there is nothing to save.
    """
    layout = make_layout(config.parallel.strategy, config.parallel.mesh)
    store.check_path(workdir)
    task = prepare.check(config)
    num_steps = config.train.num_steps
    warmup_steps = config.optimizer.schedule.get("warmup_steps", 0)
    if num_steps < warmup_steps and processes.is_first():
        logging.warning(
            "config.train.num_steps=%d ends within the warm-up, config.optimizer.schedule."
            "warmup_steps=%d: the learning rate gets to %.1f %% of its peak only; warmup_steps=%d "
            "would suit",
            *(num_steps, warmup_steps, 100 * num_steps / warmup_steps, -(-num_steps // 3)),
        )
    with lock.alone_in(workdir):
        config = prepare.settle(task, config, workdir)
        built = task.build(config, workdir)
        step, saved, stopped = loop.run(config, built, workdir, layout)
        if saved != step:
            logging.error("step %d is not saved, the newest is %s", step, saved)
            sys.exit(1)
        if any(processes.all_gather(stopped)):
            logging.info("stopped after step %d was saved; the same command goes on there", step)
            sys.exit(128 + signal.SIGTERM)
        result = evaluate.score_split(config, workdir, once=True)
        results.log_final(workdir, step, result)
