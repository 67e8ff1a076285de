"""Logs a run's numbers to the services that config.train.trackers names (registry.TRACKERS).

WORKDIR/trackers.json keeps the id that a tracker gave the run: a resumed run goes on in the same
curves.
"""

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transformer.distributed import processes
from transformer.errors import UserError, check_value
from transformer.registry import TRACKERS, load
from transformer.runtime import json_files

IDS = "trackers.json"


class Tracker(NamedTuple):
    """A run that is open in a tracker."""

    id: str
    write: Callable[[int, dict], object]  # (step, numbers)
    close: Callable[[], object]


def check(names: str) -> None:
    """Raises UserError unless `names`, with commas between, are trackers that are installed."""
    for name in filter(None, names.split(",")):
        check_value("train.trackers", name, tuple(TRACKERS))
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
            trackers.append(load(TRACKERS[name])(ids.get(name), workdir, config))
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
