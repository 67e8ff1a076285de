"""--mode=sweep FILE: trains rows of configs with several seeds, and writes one table."""

import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.distributed.processes import stop_signals
from transformer.errors import UserError, quantity
from transformer.modes import lines
from transformer.runtime import lock, paths, progress
from transformer.tasks.task import load_task
from transformer.tools.pages import measures, page
from transformer.tools.sweep import children, outcomes, sweep_file, sweep_page
from transformer.tools.sweep.sweep_file import Row, Run


def sweep(config: ConfigDict, places: tuple[Path, Path]) -> None:
    """Trains the unfinished runs of a file in WORKDIR/ROW-seedK, and writes their table.

    Interrupted runs are resumed. If a run fails, the others continue, and the exit status after the
    table is 1. A signal to stop (SIGTERM, SIGHUP, SIGUSR1, Ctrl-C) is forwarded; once the runs have
    saved, the exit status is 143, and the same command continues the sweep. UserError, before any
    training, for a mistake in any row, and for a started run whose config has changed.
    """
    file, workdir = places
    if paths.in_bucket(workdir):
        raise UserError(f"--workdir={workdir} must be a folder on a disk: --mode=sweep writes logs")
    store.check_path(workdir)
    # The devices are for the runs: JAX would take three quarters of a GPU's memory here.
    jax.config.update("jax_platforms", "cpu")
    rows = sweep_file.read(file, workdir, config.arguments)
    runs = [run for row in rows for run in row.runs]
    for run in runs:
        outcomes.check_unchanged(run)
    with lock.locked(workdir):
        statuses = train(runs, config.sweep.processes)
        failures = {run.name: failure(run, statuses.get(run.name, 0)) for run in runs}
        show(rows, failures, file, workdir)
    failed = {name: why for name, why in failures.items() if why}
    for name, why in failed.items():
        logging.error("%s has no result: %s", name, why)
    if failed:
        stopped = all(statuses[name] in children.STOPPED for name in failed)
        sys.exit(128 + signal.SIGTERM if stopped else 1)


def train(runs: Sequence[Run], processes: int) -> dict[str, int]:
    """Trains the runs that have no result; returns the exit status of each by its name.

    Exits with status 143 if signalled to stop.
    """
    statuses, missing = {}, [run for run in runs if not outcomes.result(run)]
    done = len(runs) - len(missing)
    logging.info("%s, %d of them finished", quantity(len(runs), "run"), done)
    if not missing:
        return statuses
    environments = children.environments(processes)
    folder = missing[0].workdir.parent
    logging.info("%d at a time, with their logs in %s/RUN.log", len(environments), folder)

    def ended(run: Run, status: int) -> None:
        nonlocal done
        statuses[run.name] = status
        why = failure(run, status)
        done += not why
        message = "%s: %s; %d of %d runs finished"
        logging.info(message, run.name, why or score(run), done, len(runs))

    steps = [max(x.config.train.num_steps - children.newest_step(x), 0) for x in missing]
    counter = progress.counter("sweep", total=sum(steps), unit="step")
    with stop_signals() as signalled, counter as advance:
        children.run_all(missing, environments, should_stop=signalled, advance=advance, ended=ended)
    if signalled():
        logging.info("stopped; the same command goes on")
        sys.exit(128 + signal.SIGTERM)
    return statuses


def failure(run: Run, status: int) -> str:
    """Returns why a run has no result, with exit status and last line; "" if it has one."""
    if outcomes.result(run):
        return ""
    return f"{children.in_words(status)}: {children.last_line(run)} ({run.log})"


def score(run: Run) -> str:
    """Returns the score of a finished run as text: 'BLEU 38.70'."""
    name = load_task(run.config.task).SCORE["best_by"]
    return f"{measures.name_of(name)} {measures.in_digits(name, outcomes.result(run)[name])}"


def show(rows: Sequence[Row], failures: dict[str, str], file: Path, workdir: Path) -> None:
    """Writes sweep.json and sweep.html, and prints the table, or one line of JSON into a pipe."""
    # The same in all rows: `sweep_file.read` checks it.
    scoring = load_task(rows[0].runs[0].config.task).SCORE
    best_by, best_is = scoring["best_by"], scoring["best_is"]
    of_rows = [[outcomes.read(run, failures[run.name]) for run in row.runs] for row in rows]
    p = outcomes.against_first(of_rows, best_by)
    summaries = [sweep_page.Summary(*each) for each in zip(rows, of_rows, p, strict=True)]
    values = {"file": str(file)} | sweep_page.values(summaries, best_by, best_is)
    # NaN becomes null, because JSON has no NaN.
    paths.write_json(workdir / "sweep.json", json.loads(lines.to_json(values)))
    sections = sweep_page.sections(summaries, best_by, best_is)
    page.write(workdir / "sweep.html", file.stem, sections)
    shown = [f(summaries, best_by) for f in (sweep_page.score_table, sweep_page.further_table)]
    about = "\n".join(sweep_page.about(summaries, best_by, best_is))
    page.show("\n\n".join([about, *map(page.text, shown)]), values)
