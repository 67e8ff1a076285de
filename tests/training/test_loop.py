"""Runs on a small text, end to end: killed, signalled, resumed and logged."""

import functools
import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from helpers import runs, tiny
from helpers.runs import assert_tensorboard_is_metrics, newest, translate_nothing, without_times

from transformer.decoding import compiled
from transformer.distributed.layout import make_layout
from transformer.errors import UserError
from transformer.modes import train
from transformer.tasks import losses
from transformer.training import start
from transformer.workdir.log import read

# Killed, signalled, and resumed by the same command, in processes with one device

KILLS = int(os.environ.get("KILLS", "3"))  # of one run
STEPS = 36 * KILLS
LONGER = {"train.num_steps": STEPS, "evaluate.every": 70, "optimizer.moving_average": 0.9}


class Command:
    """`python launch.py` with the config of a tiny run, for STEPS steps."""

    def __init__(self, values, workdir):
        arguments = [f"--config.{key}={value}" for key, value in {**values, **LONGER}.items()]
        self.workdir = workdir
        self._command = [
            *(sys.executable, "launch.py", "--config=configs/parallel_text.py"),
            *(f"--workdir={workdir}", *arguments),
        ]

    def start(self):
        return subprocess.Popen(
            self._command,
            cwd=runs.ROOT,
            env=runs.ONE_DEVICE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self):
        """Runs to the end; returns standard output and standard error."""
        process = self.start()
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        return output, errors

    def end(self, number, moment, seconds):
        """Starts it and sends a signal: its exit status, what it said, and whether it trained.

        `moment` is a function that says whether it has come; `seconds` pass after that.
        """
        process = self.start()
        while not moment() and process.poll() is None:
            time.sleep(0.003)
        time.sleep(seconds)
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
        return process.returncode, errors, "batches an epoch" in errors


def assert_equal_runs(workdir, expected, killed_at=0):
    step, parameters = newest(workdir)
    assert step == STEPS
    tiny.assert_same_bits(parameters, newest(expected)[1])
    assert without_times(workdir) == without_times(expected)
    assert_tensorboard_is_metrics(workdir, complete_after=killed_at)
    for place in ("params", "best"):
        kept = [sorted(p.name for p in (run / place).iterdir()) for run in (workdir, expected)]
        assert kept[0] == kept[1]
    [found, other] = [(run / "evaluations.jsonl").read_bytes() for run in (workdir, expected)]
    assert found == other


def reached(workdir, step):
    return any(line["step"] >= step for line in read(workdir))


def saving(workdir, step):
    """Returns whether a checkpoint of that step or a later one is being written."""
    drafts = (workdir / "checkpoints").glob("*tmp*")
    return any(int(draft.name.partition(".")[0]) >= step for draft in drafts)


@pytest.mark.slow
def test_kill_matrix(tiny_values, tmp_path):
    """Ended KILLS times, by SIGKILL, SIGTERM or SIGUSR1, at any moment: between steps, in the
    middle of a save, in a validation, while it starts. The same command goes on each time, and
    what comes out is what an uninterrupted run has, to the bit."""
    command, choose = Command(tiny_values, tmp_path / "run"), random.Random(5)
    command.workdir.mkdir()
    newest_killed = stopped = 0
    for kill in range(KILLS):
        target = (STEPS - 20) * (kill + 1) // (KILLS + 1)
        number = choose.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
        kind = ("save", "step", "start")[kill % 3]
        moment = {
            "save": functools.partial(saving, command.workdir, target),
            "step": functools.partial(reached, command.workdir, target),
            "start": lambda: True,
        }[kind]
        seconds = choose.uniform(0, {"save": 0.03, "step": 0.5, "start": 6}[kind])
        status, errors, trained = command.end(number, moment, seconds)
        assert status != 0, errors
        assert "Traceback" not in errors
        if number == signal.SIGKILL or not trained:
            assert status == -number
        else:
            assert status in (143, -number)  # the latter before its first step
        if status == 143:
            stopped += 1
            step = int(re.search(r"stopped and saved at step (\d+)", errors)[1])
            assert newest(command.workdir)[0] == step
            assert not (command.workdir / "evaluations.jsonl").exists()
        newest_killed = max([newest_killed, *(x["step"] for x in read(command.workdir))])
    assert stopped
    command.finish()
    uninterrupted = Command(tiny_values, tmp_path / "uninterrupted")
    output, _ = uninterrupted.finish()
    assert len(output.splitlines()) == 1  # results only
    assert_equal_runs(command.workdir, uninterrupted.workdir, newest_killed)


@pytest.fixture
def one_device(monkeypatch):
    """Trains on one device."""
    monkeypatch.setattr(train, "make_layout", lambda *asked: make_layout(*asked, 1))


def exhausted(*_, **__):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (start, "compile_step", r"a step with 32 rows of 32 positions .*config.data.batch_tokens"),
        (
            losses,
            "sums_and_nats",
            r"the loss of \d+ rows of \d+ positions .*config.decode.batch_tokens",
        ),
        (compiled, "start", r"a search of \d+ sentences of \d+ pieces, 1 beams each, .*tokens"),
    ],
)
def test_what_does_not_fit_is_said_before_step_1(
    mixer_config, tmp_path, monkeypatch, caplog, owner, name, said
):
    """A training step, the loss of validation, or its beam search."""
    fails = {"side_effect": exhausted, "lower.return_value.compile.side_effect": exhausted}
    shown = lambda *_: Mock(**fails)
    monkeypatch.setattr(owner, name, shown if name == "compile_step" else exhausted)
    with pytest.raises(UserError, match=rf"\A.*{said}.*\Z"):
        train.train(mixer_config({}), tmp_path)
    assert not read(tmp_path)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize(("strategy", "step"), [("pmap", "_fun"), ("jit", "global_step")])
def test_a_step_is_compiled_once_beside_validation(
    mixer_config, tmp_path, caplog, monkeypatch, strategy, step
):
    """The calls find the program that a thread has compiled."""
    translate_nothing(monkeypatch)
    caplog.set_level(logging.DEBUG, "jax._src.dispatch")
    changes = {"train.num_steps": 1, "evaluate.every": 0, "evaluate.samples": 0}
    changes |= {"parallel.strategy": strategy, "optimizer.moving_average": 0.5}
    train.train(mixer_config(changes), tmp_path)
    compiled_steps = [
        record.threadName
        for record in caplog.records
        if record.getMessage().startswith(f"Finished XLA compilation of jit({step})")
    ]
    assert len(compiled_steps) == 1
    assert compiled_steps[0].startswith("ThreadPoolExecutor")
    (_, latest), (_, best) = newest(tmp_path), newest(tmp_path, "best")
    assert not np.array_equal(*(jax.tree.leaves(x)[0] for x in (latest, best)))  # the average


@pytest.mark.slow
@pytest.mark.usefixtures("one_device")
def test_all_lengths_are_tried_before_step_1(mixer_config, tmp_path, caplog, monkeypatch):
    """And the run has the same batches and metrics as without the dry run."""
    caplog.set_level(logging.INFO)
    translate_nothing(monkeypatch)
    config = mixer_config({"data.pack": False, "train.num_steps": 6, "evaluate.every": 0})
    config.update_from_flattened_dict({"train.log_every": 1, "evaluate.samples": 0})
    train.train(config.copy_and_resolve_references(), tmp_path / "run")
    said = [record.getMessage() for record in caplog.records]
    assert any(re.search(r"^dry run done in .*, [2-4] steps of training", x) for x in said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "dry_run", lambda state, *_: state)
        train.train(config.copy_and_resolve_references(), tmp_path / "without")
    assert without_times(tmp_path / "run") == without_times(tmp_path / "without")
