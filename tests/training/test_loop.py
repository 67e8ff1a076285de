"""Runs on the built-in corpus, end to end: killed, signalled, resumed, moved and logged."""

import functools
import json
import logging
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.runs import TIMES, assert_tensorboard_is_metrics, newest, without_times

from transformer.checkpoints import workdir
from transformer.decoding import compiled
from transformer.distributed.layout import make_layout
from transformer.errors import UserError
from transformer.modes import evaluate, prepare, train
from transformer.monitoring.log import read
from transformer.tasks import losses, translation, translation_evaluator
from transformer.tasks.translation_evaluator import Evaluator
from transformer.training import loop

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN_KEYS = TIMES | {
    *("kind", "step", "loss", "nats_per_token", "perplexity", "accuracy"),
    *("learning_rate", "gradient_norm", "padding", "skipped"),
}
VALIDATION_KEYS = {
    *("kind", "step", "loss", "nats_per_token", "perplexity", "accuracy"),
    *("bleu", "chrf", "length_ratio", "signature", "samples"),
}
FINAL_KEYS = VALIDATION_KEYS - {"samples"} | {
    *("set", "split", "weights", "ensemble", "sentences", "checksum"),
}


# Files of a finished run


def test_log_lines_have_all_keys(tiny_run):
    lines = read(tiny_run.workdir)
    kinds = [(line["kind"], line["step"]) for line in lines]
    expected = [("train", step) for step in range(10, 170, 10)]
    expected.insert(8, ("validation", 80))
    assert kinds == [*expected, ("validation", 160), ("test", 160)]
    keys = {"train": TRAIN_KEYS, "validation": VALIDATION_KEYS, "test": FINAL_KEYS}
    for line in lines:
        assert line.keys() == keys[line["kind"]]
        numbers = [value for value in line.values() if isinstance(value, int | float)]
        assert np.isfinite(numbers).all()


def test_log_lines_say_what_happened(tiny_run):
    lines = read(tiny_run.workdir)
    training = [line for line in lines if line["kind"] == "train"]
    for line in training:
        assert line["perplexity"] == pytest.approx(np.exp(line["nats_per_token"]))
        assert 0 < line["padding"] < 0.3
        expected = 0.5 * 32**-0.5 * min(line["step"] ** -0.5, line["step"] * 40**-1.5)
        assert line["learning_rate"] == pytest.approx(expected, rel=1e-5)
        left = (160 - line["step"]) * line["step_seconds"]
        assert line["seconds_left"] == pytest.approx(left)
        tokens = line["tokens_per_second"] * line["step_seconds"]
        assert tokens == pytest.approx(1024 * (1 - line["padding"]), rel=1e-3)
    assert training[-1]["loss"] < 0.8 * training[0]["loss"]
    assert training[-1]["accuracy"] > training[0]["accuracy"]


def test_tensorboard_has_the_numbers_of_metrics(tiny_run):
    assert_tensorboard_is_metrics(tiny_run.workdir)


def test_checkpoints_are_where_they_belong(tiny_run):
    names = lambda *parts: {p.name for p in tiny_run.workdir.joinpath(*parts).iterdir()}
    assert names("checkpoints") == {"80", "120", "160"}
    for step in ("80", "120", "160"):
        state = {"params"} if step == "80" else {"params", "opt_state"}
        assert names("checkpoints", step) & {"params", "opt_state", "checksums.json"} == {
            *state,
            "checksums.json",
        }
    lines = [line for line in read(tiny_run.workdir) if line["kind"] == "validation"]
    best = max(lines, key=lambda line: line["bleu"])
    assert names("best") == {str(best["step"])}
    sides = {"test.hypothesis", "test.reference", "test.source"}
    assert names("evaluation") == {"test.json", *sides}


def test_config_names_vocabulary_and_versions(tiny_run):
    config = json.loads((tiny_run.workdir / "config.json").read_text())
    vocabulary = workdir.read_vocabulary(tiny_run.workdir, workdir.read_config(tiny_run.workdir))
    assert config["vocabulary"]["fingerprint"] == vocabulary.fingerprint
    assert len(vocabulary.fingerprint) >= 16
    assert config["versions"].keys() == set(workdir.PACKAGES)
    for name, version in config["versions"].items():
        assert version == metadata.version(name)
    assert config["model"] == tiny_run.config.model.to_dict()


# Validation and evaluation agree


@pytest.fixture
def copied(tiny_run, tmp_path):
    """A writable copy of the tiny run's workdir."""
    return shutil.copytree(tiny_run.workdir, tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["latest", "best"])
def test_validation_says_what_evaluate_says(copied, capsys, weights):
    config = workdir.read_config(copied)
    config.evaluate.split, config.evaluate.weights = "validation", weights
    evaluate.evaluate(config, copied)
    said = json.loads(capsys.readouterr().out)
    (line,) = (
        line
        for line in read(copied)
        if line["kind"] == "validation" and line["step"] == said["step"]
    )
    assert said["sentences"] == 500
    assert said["bleu"] > 0
    for name in VALIDATION_KEYS - {"kind", "samples"}:
        assert said[name] == line[name]


# Refused before anything is changed


@pytest.mark.parametrize(
    ("key", "value", "was"),
    [
        ("model.d_model", 16, 32),
        ("model.norm", "pre", "'post'"),
        ("model.dropout_rate", 0.25, 0.1),
        ("vocabulary.size", 700, 640),
        ("optimizer.arguments.b2", 0.997, 0.98),
    ],
)
def test_another_model_is_refused_by_name(tiny_config, tiny_run, key, value, was):
    before = (tiny_run.workdir / "config.json").read_bytes()
    with pytest.raises(ValueError, match=f"config.{key}={was}, now it is {value!r}") as raised:
        train.train(tiny_config({key: value}), tiny_run.workdir)
    assert "\n" not in str(raised.value)
    assert (tiny_run.workdir / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "has another vocabulary than this run; train with --config.vocabulary.model="),
        ({"evaluate.weights": "best"}, "best holds no complete checkpoint"),
        ({"vocabulary.size": 640, "decode.max_length": 60}, "max_positions=50"),
    ],
)
def test_an_ensemble_that_cannot_work_is_refused_before_training(
    tiny_config, tiny_run, tmp_path, monkeypatch, changes, said
):
    """The member has 50 learned positions and no best checkpoint."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    member = tmp_path / "member"
    member.mkdir()
    for name in ("vocabulary", "checkpoints"):
        (member / name).symlink_to(tiny_run.workdir / name)
    config = json.loads((tiny_run.workdir / "config.json").read_text())
    config["model"] |= {"positions": "learned", "max_positions": 50}
    (member / "config.json").write_text(json.dumps(config))
    asked = {"evaluate.ensemble": str(member), "vocabulary.size": 600, "decode.max_length": 16}
    asked |= {"evaluate.weights": "latest", **changes}
    with pytest.raises(UserError, match=said) as error:
        train.train(tiny_config(asked), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "config.json").exists()


def test_finished_run_is_only_evaluated_again(tiny_config, copied, capsys):
    before = without_times(copied), newest(tiny_config(), copied)
    [said] = read(copied, "evaluations.jsonl")
    train.train(tiny_config(), copied)
    assert json.loads(capsys.readouterr().out) == said
    assert read(copied, "evaluations.jsonl") == [said]
    after = without_times(copied), newest(tiny_config(), copied)
    assert after[0] == before[0]
    assert after[1][0] == before[1][0] == 160
    tiny.assert_same_bits(after[1][1], before[1][1])


# Killed, signalled, and resumed by the same command, in processes with one device

KILLS = int(os.environ.get("KILLS", "5"))  # of one run
STEPS = 48 * KILLS
# What can change in a workdir


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.mark.parametrize("changes", [{}, {"vocabulary.size": 700}, {"train.num_steps": 10}])
def test_training_leaves_a_copy_made_to_translate_with_as_it_is(
    tiny_run, tiny_config, tmp_path, changes
):
    """It may hold the only copy of a model: `best/`, and no state to resume from."""
    copy = tmp_path / "copy"
    shutil.copytree(tiny_run.workdir, copy, ignore=shutil.ignore_patterns("checkpoints"))
    before = contents(copy)
    with pytest.raises(UserError, match=r"not resumed; nothing was changed; give another") as error:
        train.train(tiny_config(changes), copy)
    assert "\n" not in str(error.value)
    assert contents(copy) == before


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"[]", b'{"data": {', None])
def test_a_damaged_config_is_written_again(
    tiny_run, tiny_config, tmp_path, monkeypatch, caplog, content
):
    """As a power failure may leave it, beside undamaged checkpoints."""
    copy = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    before = json.loads((copy / "config.json").read_bytes())
    if content is None:
        (copy / "config.json").unlink()
    else:
        (copy / "config.json").write_bytes(content)
    # Not learnt again: the checkpoints are of the vocabulary that is there.
    monkeypatch.setattr(translation.vocabulary, "learnt", None)
    train.train(tiny_config(), copy)
    assert "config.json will be rewritten from --config" in caplog.text
    assert json.loads((copy / "config.json").read_bytes()) == before
    assert (copy / "metrics.jsonl").read_bytes() == (
        tiny_run.workdir / "metrics.jsonl"
    ).read_bytes()


def test_a_config_without_a_key_of_today_takes_todays_value(
    tiny_run, tiny_config, tmp_path, monkeypatch, caplog
):
    copy = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_bytes())
    del config["optimizer"]["clip_norm"]
    (copy / "config.json").write_text(json.dumps(config))
    train.train(tiny_config(), copy)
    assert "config.json has no optimizer.clip_norm=0.0" in caplog.text
    caplog.clear()
    train.train(tiny_config(), copy)
    assert "config.json has no" not in caplog.text


@pytest.mark.slow
def test_a_workdir_without_a_step_has_settled_nothing(tiny_config, tmp_path, monkeypatch):
    """A typo, or a model too large for memory, can be corrected before the first save."""

    class Enough(Exception):
        pass

    def stop(*_, **__):
        raise Enough

    monkeypatch.setattr(loop, "rehearse", stop)
    for changes in ({}, {"data.batch_tokens": 512}, {"vocabulary.size": 700}):
        with pytest.raises(Enough):
            train.train(tiny_config(changes), tmp_path)
        assert (tmp_path / "checkpoints").is_dir()
    assert workdir.read_config(tmp_path).vocabulary.size == 700


LONGER = {"train.num_steps": STEPS, "evaluate.every": 100}


class Command:
    """`python launch.py` with the tiny quickstart config, for STEPS steps."""

    def __init__(self, values, workdir):
        arguments = [f"--config.{key}={value}" for key, value in {**values, **LONGER}.items()]
        self.workdir = workdir
        self._command = [
            *(sys.executable, "launch.py", "--config=configs/quickstart.py"),
            *(f"--workdir={workdir}", *arguments),
        ]
        flags = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")
        self._environment = {**os.environ, "XLA_FLAGS": flags}

    def start(self):
        return subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environment,
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


@pytest.fixture(scope="module")
def uninterrupted(tiny_values, tmp_path_factory):
    command = Command(tiny_values, tmp_path_factory.mktemp("runs") / "uninterrupted")
    output, _ = command.finish()
    assert len(output.splitlines()) == 1  # results only
    return command.workdir


def assert_equal_runs(config, workdir, expected, killed_at=0):
    step, parameters = newest(config, workdir)
    assert step == STEPS
    tiny.assert_same_bits(parameters, newest(config, expected)[1])
    assert without_times(workdir) == without_times(expected)
    assert_tensorboard_is_metrics(workdir, complete_after=killed_at)
    best = [sorted(p.name for p in (run / "best").iterdir()) for run in (workdir, expected)]
    assert best[0] == best[1]
    [found, other] = [(run / "evaluations.jsonl").read_bytes() for run in (workdir, expected)]
    assert found == other


def translate_nothing(patch):
    """Makes evaluations take the references for the translations."""

    def scores(self, params, should_stop=None):
        sums = dict.fromkeys(losses.SUMS, 1.0)
        references = self.dataset["reference"]
        found = translation_evaluator.score(references, references, tokenize="13a")
        return {**losses.per_token(sums), **found}

    patch.setattr(Evaluator, "scores", scores)
    patch.setattr(Evaluator, "rehearse", lambda *_: None)


def reached(workdir, step):
    return any(line["step"] >= step for line in read(workdir))


def saving(workdir, step):
    """Returns whether a checkpoint of that step or a later one is being written."""
    drafts = (workdir / "checkpoints").glob("*tmp*")
    return any(int(draft.name.partition(".")[0]) >= step for draft in drafts)


@pytest.mark.slow
def test_kill_matrix(tiny_config, tiny_values, uninterrupted, tmp_path):
    """Ended KILLS times, by SIGKILL, SIGTERM or SIGUSR1, at any moment: between steps, in the
    middle of a save, in a validation, while it starts. The same command goes on each time, and
    what comes out is what an uninterrupted run has, to the bit."""
    command, choose = Command(tiny_values, tmp_path / "run"), random.Random(KILLS)
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
            assert newest(tiny_config(LONGER), command.workdir)[0] == step
            assert not (command.workdir / "evaluations.jsonl").exists()
        newest_killed = max([newest_killed, *(x["step"] for x in read(command.workdir))])
    assert stopped or KILLS < 5
    command.finish()
    assert_equal_runs(tiny_config(LONGER), command.workdir, uninterrupted, newest_killed)


VALIDATED_BETWEEN = {"train.num_steps": 60, "evaluate.every": 50, "evaluate.samples": 1}


@pytest.fixture(scope="module")
def validated_between(tiny_config, tmp_path_factory):
    """A run that validates after step 50, which is not saved."""
    workdir = tmp_path_factory.mktemp("runs") / "validated"
    train.train(tiny_config(VALIDATED_BETWEEN), workdir)
    return workdir


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_translations", "_batch_sums"])
def test_told_to_stop_in_a_validation_it_saves_and_validates_later(
    tiny_config, validated_between, tmp_path, monkeypatch, name
):
    changes, told = VALIDATED_BETWEEN, []

    def tell(self, *arguments, **options):
        if not told and callable(
            arguments[-1]
        ):  # the dry run before step 1 does not check for signals
            told.append(os.kill(os.getpid(), signal.SIGTERM))
        return find(self, *arguments, **options)

    find = getattr(Evaluator, name)
    monkeypatch.setattr(Evaluator, name, tell)
    with pytest.raises(SystemExit) as status:
        train.train(tiny_config(changes), tmp_path / "run")
    assert status.value.code == 143
    assert newest(tiny_config(changes), tmp_path / "run")[0] == 50
    assert not any(line["kind"] == "validation" for line in read(tmp_path / "run"))
    train.train(tiny_config(changes), tmp_path / "run")
    assert without_times(tmp_path / "run") == without_times(validated_between)
    runs = [newest(tiny_config(changes), run) for run in (tmp_path / "run", validated_between)]
    tiny.assert_same_bits(runs[0][1], runs[1][1])


def test_before_the_first_step_signals_end_the_process(tiny_config, tmp_path, monkeypatch):
    """During compilation there is nothing to save."""
    numbers, handlers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT), []

    def rehearse(*_):
        handlers.extend(map(signal.getsignal, numbers))
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "rehearse", rehearse)
    with pytest.raises(KeyboardInterrupt):
        train.train(tiny_config(), tmp_path)
    assert handlers == list(map(signal.getsignal, numbers))


@pytest.fixture
def devices(monkeypatch):
    """A function that sets how many devices training uses."""

    def see(number):
        monkeypatch.setattr(train, "make_layout", lambda *asked: make_layout(*asked, number))

    return see


@pytest.mark.parametrize(("num_steps", "said"), [(40, False), (39, True)])
def test_fewer_steps_than_the_warm_up_are_said(
    tiny_config, tmp_path, monkeypatch, caplog, num_steps, said
):
    """A warning at the start, before anything is prepared."""
    monkeypatch.delattr(translation, "prepare")
    with pytest.raises(AttributeError):
        train.train(tiny_config({"train.num_steps": num_steps}), tmp_path)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    expected = (
        "config.train.num_steps=39 ends within the warm-up, config.optimizer.schedule.warmup_steps="
        "40: the learning rate only reaches 97.5 % of its peak; consider warmup_steps=13"
    )
    assert warnings == [expected] * said


def test_prepare_ends_with_a_summary(tiny_config, data_dir, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    prepare.prepare(tiny_config(), tmp_path)
    said = caplog.messages[-1]
    pattern = (
        r"prepared: 21,\d+ training pairs in .* batches an epoch .*; vocabulary of 640 pieces; "
    )
    assert re.match(
        rf"{pattern}token ids in {data_dir}/.*; config and vocabulary are in {tmp_path}", said
    )


# Memory


def exhausted(*_, **__):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (
            loop,
            "compile_step",
            r"a step with 32 rows of 32 positions .*config.data.batch_tokens",
        ),
        (
            translation_evaluator,
            "_sums",
            r"the loss of \d+ rows of \d+ positions .*config.decode.batch_tokens",
        ),
        (
            compiled,
            "start",
            r"a search of \d+ sentences of \d+ pieces, 1 beams each, .*batch_tokens",
        ),
    ],
)
def test_what_does_not_fit_is_said_before_step_1(
    tiny_config, tmp_path, monkeypatch, caplog, owner, name, said
):
    """A training step, the loss of validation, or its beam search."""
    shown = lambda *_: lambda *_: exhausted()
    monkeypatch.setattr(owner, name, shown if name == "compile_step" else exhausted)
    with pytest.raises(ValueError, match=said) as raised:
        train.train(tiny_config(), tmp_path)
    assert "\n" not in str(raised.value)
    assert not read(tmp_path)
    assert not list((tmp_path / "checkpoints").iterdir())


@pytest.mark.slow
def test_all_lengths_are_tried_before_step_1(tiny_config, devices, tmp_path, caplog, monkeypatch):
    """And the run has the same batches and metrics as without the dry run."""
    caplog.set_level(logging.INFO)
    devices(1)
    translate_nothing(monkeypatch)
    config = tiny_config({"data.pack": False, "train.num_steps": 6, "evaluate.every": 0})
    config.update_from_flattened_dict({"train.log_every": 1, "evaluate.samples": 0})
    train.train(config.copy_and_resolve_references(), tmp_path / "run")
    said = [record.getMessage() for record in caplog.records]
    assert any(re.match(r"dry run done: steps with rows of [2-4] length", x) for x in said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "rehearse", lambda state, *_: state)
        train.train(config.copy_and_resolve_references(), tmp_path / "without")
    assert without_times(tmp_path / "run") == without_times(tmp_path / "without")


# Moved to other devices


SHORT = {
    "model.dropout_rate": 0.0,  # each device draws its own dropout
    "optimizer.arguments.eps": 1e-3,  # so that Adam does not amplify rounding errors to whole steps
    "train.save_every": 5,
    "train.log_every": 1,
    "evaluate.every": 0,
    "evaluate.samples": 0,
}


@pytest.fixture(scope="module")
def ten_steps(tiny_config, tmp_path_factory):
    """Ten steps on one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "make_layout", lambda *asked: make_layout(*asked, 1))
        translate_nothing(patch)
        workdir = tmp_path_factory.mktemp("runs") / "ten"
        config = tiny_config({**SHORT, "train.num_steps": 10, "parallel.strategy": "jit"})
        train.train(config, workdir)
    return workdir


@pytest.mark.parametrize(
    ("before", "after"), [(("pmap", 8), ("jit", 1)), (("jit", 1), ("pmap", 8))], ids=str
)
def test_run_goes_on_under_the_other_strategy(
    tiny_config, devices, ten_steps, tmp_path, monkeypatch, before, after
):
    translate_nothing(monkeypatch)
    for num_steps, (strategy, number) in ((5, before), (10, after)):
        devices(number)
        changes = {**SHORT, "train.num_steps": num_steps, "parallel.strategy": strategy}
        train.train(tiny_config(changes), tmp_path / "run")
    config = tiny_config(SHORT)
    (step, found), (_, expected) = newest(config, tmp_path / "run"), newest(config, ten_steps)
    assert step == 10
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    losses = [
        [line["loss"] for line in read(run) if line["kind"] == "train"]
        for run in (tmp_path / "run", ten_steps)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert len(losses[0]) == 10


# Early stopping


@pytest.mark.slow
def test_stops_early_and_stays_stopped(tiny_config, devices, tmp_path, monkeypatch):
    """The second BLEU is the best; with patience 2 the fourth validation ends the run."""
    devices(1)
    translate_nothing(monkeypatch)
    scores = iter([1.0, 4.0, 3.0, 2.0, *[9.0] * 10])
    score = translation_evaluator.score
    monkeypatch.setattr(
        translation_evaluator,
        "score",
        lambda *args, **kwargs: {**score(*args, **kwargs), "bleu": next(scores)},
    )
    changes = {"train.num_steps": 50, "evaluate.every": 3, "evaluate.patience": 2}
    train.train(tiny_config(changes), tmp_path)
    lines = without_times(tmp_path)
    assert [line["bleu"] for line in lines if line["kind"] == "validation"] == [1.0, 4.0, 3.0, 2.0]
    assert newest(tiny_config(), tmp_path)[0] == 12
    [result] = read(tmp_path, "evaluations.jsonl")
    assert result["step"] == 6  # the best one
    assert [line["step"] for line in lines if line["kind"] == "test"] == [12]
    train.train(tiny_config(changes), tmp_path)
    assert without_times(tmp_path) == lines
