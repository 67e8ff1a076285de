"""The loop's control flow, on random histories of kills, signals and restarts.

Nothing is computed: what the loop calls is replaced by a world that counts, in which a kill or a
signal can come at any event.
"""

import contextlib
import math
import pathlib
import random
import types

import pytest
from ml_collections import ConfigDict

from transformer.training import loop
from transformer.training.update import TrainState


class Killed(BaseException):
    """The process is gone."""


class World:
    """A disk with the newest checkpoint and the log, and a process that may die at event n."""

    def __init__(self, config, scores):
        self.config, self.score = config, scores.__getitem__
        self.disk, self.log, self.best = 0, {}, None

    def start(self, plan):
        """A new process: what the log has past the checkpoint is cut."""
        self.plan, self.events, self.signalled_at, self.saving = plan, 0, None, self.disk
        self.trained, self.stopped = [], False
        self.log = {step: score for step, score in self.log.items() if step <= self.disk}

    def event(self):
        self.events += 1
        happens = self.plan.get(self.events)
        if happens == "kill":
            raise Killed
        if happens == "signal":
            self.stopped = True
            self.signalled_at = len(self.trained)

    # Checkpoints

    def save(self, step, *_):
        self.finish()
        self.event()
        self.saving = step
        self.event()

    def finish(self):
        self.disk = self.saving

    def save_best(self, step, params, score):
        self.event()
        assert self.disk == step, "a validation without its checkpoint"
        if self.best is None or score > self.best[1]:
            self.best = (step, score)

    close = finish
    flush = lambda self: None

    # The task

    def evaluate(self, params):
        for _ in range(3):
            self.event()
        return {"score": self.score(params)}

    # The log and the meters

    @property
    def lines(self):
        return [{"kind": "validation", "score": self.log[step]} for step in sorted(self.log)]

    def has_validation(self, step):
        return step in self.log

    started = lambda self, *_: None

    def validation(self, step, scores, is_best):
        assert step not in self.log
        self.log[step] = scores["score"]
        self.event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    paused = waiting_for_data = lambda self: contextlib.nullcontext()
    add = lambda self, *_, **__: self.event()

    # The devices

    def step(self, state, batch):
        assert batch == state.step, "another batch than the step's"
        self.event()
        self.trained.append(state.step + 1)
        return state._replace(step=state.step + 1, params=state.step + 1), {}

    def make_any_process(self, layout):
        """Of several processes: what one asks for, all hear two steps later."""
        asked = []

        def any_process(asks):
            asked.append(asks)
            return asked[-1] if not self.config.several else len(asked) > 2 and asked[-3]

        return any_process


def run(world, monkeypatch):
    """One process: `loop.run` in the world."""
    values = {"best_is": "highest", "best_by": "score", "identity": {}, "evaluate": world.evaluate}
    task = types.SimpleNamespace(**values, loss=None, init=None, batches=None)
    replaced = {
        "start": types.SimpleNamespace(
            open_run=lambda *_: (world, TrainState(world.disk, 0, world.disk, ()), world.step),
            dry_run=lambda state, *_: state,
            load_batch=lambda *_: None,
        ),
        "describe": lambda *_: None,
        "make_any_process": world.make_any_process,
        "Meters": lambda *_, **__: world,
        "prefetch": lambda load, steps: ((t, (1, 1)) for t in steps),
        "gather_params": lambda params, layout: params,
        "to_save": lambda state, layout: state,
    }
    with monkeypatch.context() as patch:
        for name, value in replaced.items():
            patch.setattr(loop, name, value)
        # Giving memory back takes 10 ms where a process has much: half of the time of all tests.
        patch.setattr(loop.memory, "trimmed", contextlib.nullcontext)
        patch.setattr(loop, "Log", lambda *_: world)
        patch.setattr(loop.processes, "all_gather", lambda value: [value])
        train = {"num_steps": world.config.num_steps, "save_every": world.config.save_every}
        train |= {"accumulate": 1, "log_every": 1}
        evaluate = {"every": world.config.every, "patience": world.config.patience}
        config = ConfigDict({"train": train, "evaluate": evaluate})
        signals = lambda: contextlib.nullcontext(lambda: world.stopped)
        return loop.run(config, task, pathlib.Path("unused"), None, signals, None)


@pytest.mark.parametrize("several", [False, True])
def test_any_history_ends_as_an_uninterrupted_run(several, monkeypatch):
    chosen = random.Random(several)
    for _ in range(400):
        config = types.SimpleNamespace(
            num_steps=chosen.randint(1, 14),
            every=chosen.choice([0, 1, 2, 3, 5]),
            save_every=chosen.choice([1, 2, 3, 4, 7]),
            patience=chosen.choice([0, 0, 1, 2, 3]),
            several=several,
        )
        scores = [chosen.random() for _ in range(20)]
        plain = World(config, scores)
        plain.start({})
        expected = run(plain, monkeypatch)
        assert plain.trained == list(range(1, expected[0] + 1))
        due = loop.Due(config.num_steps, 1, 1, config.patience, "score", "highest")
        lines = plain.lines
        stop_early = [due.is_out_of_patience(lines[: n + 1]) for n in range(len(lines))]
        assert not any(stop_early[:-1])
        assert expected[0] == config.num_steps or stop_early[-1]
        world = World(config, scores)
        for _ in range(chosen.randint(1, 4)):
            world.start({chosen.randint(1, 60): chosen.choice(["kill", "signal"])})
            before = world.disk
            with contextlib.suppress(Killed):
                step, stopped = run(world, monkeypatch)
                assert step == world.disk  # nothing that was trained is lost
                assert stopped == (world.signalled_at is not None)
                if world.signalled_at is not None:
                    assert len(world.trained) <= world.signalled_at + (3 if several else 1)
            assert world.disk >= before
        world.start({})
        assert run(world, monkeypatch) == expected
        assert (world.log, world.disk) == (plain.log, plain.disk)
        assert world.best == plain.best


# Early stopping without a new best score.


def validations(*scores):
    """Returns log lines of validations with these BLEU scores, between lines of training."""
    lines = []
    for step, bleu in enumerate(scores, start=1):
        lines += [{"kind": "train", "step": step, "loss": 1.0}]
        lines += [{"kind": "validation", "step": step, "bleu": bleu}]
    return lines


@pytest.mark.parametrize(
    ("scores", "patience", "stops"),
    [
        ([], 1, False),
        ([1.0], 1, False),
        ([1.0, 1.0], 1, True),
        ([1.0, 1.1], 1, False),
        ([3.0, 1.0, 2.0, 2.0], 2, True),
        ([3.0, 2.0, 2.5], 3, False),
        ([3.0, 2.0, 3.1], 2, False),
        ([3.0, 2.0, 3.0], 2, True),
        ([1.0, 2.0, 1.0, 1.0], 3, False),
        ([5.0, 1.0, 1.0, 1.0], 0, False),
        ([3.0, math.nan, math.nan], 2, True),
        ([math.nan, 3.0], 1, False),
        ([3.0, "x", [1], 2.0], 1, True),
    ],
)
def test_early_stopping_by_patience(scores, patience, stops):
    due = loop.Due(9, 1, 1, patience, "bleu", "highest")
    assert due.is_out_of_patience(validations(*scores)) == stops
    lower = validations(*(-x if isinstance(x, float) else x for x in scores))
    assert due._replace(best_is="lowest").is_out_of_patience(lower) == stops
