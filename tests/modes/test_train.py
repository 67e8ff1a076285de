"""The mode train: what it refuses, and what it changes in the workdir of another run."""

import json
import shutil
import signal

import numpy as np
import pytest
from helpers import tiny
from helpers.checkpoints import contents
from helpers.runs import newest, translate_nothing, without_times

from transformer.checkpoints import weights
from transformer.errors import UserError
from transformer.models import boxes
from transformer.modes import command_line, prepare, train
from transformer.tasks import saved_model, translation, vocabularies
from transformer.training import start
from transformer.workdir import config_files, saved_config
from transformer.workdir.log import read


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "has another vocabulary than this run: train with --config.vocabulary.model="),
        ({"evaluate.weights": "best"}, "best holds no complete checkpoint"),
        ({"vocabulary.size": 293, "decode.max_length": 60}, "max_positions=50"),
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
    asked = {"evaluate.ensemble": str(member), "vocabulary.size": 285, "decode.max_length": 16}
    asked |= {"evaluate.weights": "latest", **changes}
    with pytest.raises(UserError, match=rf"\A.*{said}.*\Z"):
        train.train(tiny_config(asked), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(("num_steps", "is_said"), [(40, False), (39, True)])
def test_fewer_steps_than_the_warm_up_are_said(
    tiny_config, tmp_path, monkeypatch, caplog, num_steps, is_said
):
    """A warning at the start, before anything is prepared."""
    monkeypatch.delattr(translation, "prepare")
    with pytest.raises(AttributeError):
        train.train(tiny_config({"train.num_steps": num_steps}), tmp_path)
    said = "config.train.num_steps=39 ends within the warm-up, below the peak of the learning rate"
    expected = f"{said}: consider config.optimizer.schedule.warmup_steps=13"
    assert caplog.messages == [expected] * is_said


@pytest.mark.parametrize(
    ("key", "is_said"), [("validation", True), ("test", True), ("train", False)]
)
def test_scores_of_the_training_text_are_said(tiny_config, caplog, key, is_said):
    prepare.check(tiny_config({f"data.{key}": "train"}))
    expected = f"config.data.{key}='train' is the training data"
    assert [x.partition(":")[0] for x in caplog.messages] == [expected] * is_said


def test_before_the_first_step_signals_end_the_process(tiny_config, tmp_path, monkeypatch):
    """During compilation there is nothing to save."""
    numbers, handlers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT), []

    def rehearse(*_):
        handlers.extend(map(signal.getsignal, numbers))
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "dry_run", rehearse)
    with pytest.raises(KeyboardInterrupt):
        train.train(tiny_config(), tmp_path)
    assert handlers == list(map(signal.getsignal, numbers))


def test_finished_run_is_only_evaluated_again(tiny_run, tiny_config, tmp_path, capsys):
    """And a run of another model leaves it as it is."""
    copied = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    files = contents(copied)
    for key, value, was in (("model.d_model", 16, 32), ("vocabulary.size", 285, 293)):
        with pytest.raises(UserError, match=rf"\A.*config\.{key}={was}, now it is {value}.*\Z"):
            train.train(tiny_config({key: value}), copied)
    assert contents(copied) == files
    before = without_times(copied), newest(copied)
    [said] = read(copied, "evaluations.jsonl")
    data_dir = f"--config.data.data_dir={tiny_run.config.data.data_dir}"
    _, folder, config = command_line.parse([f"--workdir={copied}", data_dir])
    train.train(config, folder)
    assert json.loads(capsys.readouterr().out) == said
    assert read(copied, "evaluations.jsonl") == [said]
    after = without_times(copied), newest(copied)
    assert after[0] == before[0]
    assert after[1][0] == before[1][0] == 160
    tiny.assert_same_bits(after[1][1], before[1][1])


@pytest.mark.parametrize("changes", [{}, {"vocabulary.size": 285}, {"train.num_steps": 10}])
def test_training_leaves_a_copy_made_to_translate_with_as_it_is(
    tiny_run, tiny_config, tmp_path, changes
):
    """It may hold the only copy of a model: `best/`, and no state to resume from."""
    copy = tmp_path / "copy"
    shutil.copytree(tiny_run.workdir, copy, ignore=shutil.ignore_patterns("checkpoints", "params"))
    before = contents(copy)
    with pytest.raises(UserError, match=r"\A.*cannot be resumed; nothing was changed.*\Z"):
        train.train(tiny_config(changes), copy)
    assert contents(copy) == before


@pytest.mark.slow
@pytest.mark.parametrize("content", [b'{"data": {', None])
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
    monkeypatch.setattr(vocabularies, "learn", None)
    train.train(tiny_config(), copy)
    assert "config.json will be rewritten from --config" in caplog.text
    assert json.loads((copy / "config.json").read_bytes()) == before
    logs = [(workdir / "metrics.jsonl").read_bytes() for workdir in (copy, tiny_run.workdir)]
    assert logs[0] == logs[1]


def test_a_missing_key_takes_todays_value(tiny_run, tiny_config, tmp_path, monkeypatch, caplog):
    translate_nothing(monkeypatch)
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
def test_a_run_is_tuned_on_other_text(tiny_run, tmp_path, monkeypatch):
    """configs/fine_tuning.py: the same model and vocabulary; what is frozen keeps its bits."""
    translate_nothing(monkeypatch)
    for language, lines in (("ko", ["가 나 다", "라 마"]), ("en", ["a b c", "d e"])):
        for split in ("train", "validation"):
            text = "".join(f"{line}\n" for line in lines * 40)
            (tmp_path / f"{split}.{language}").write_text(text, "utf-8")
    run, tuned = tiny_run.workdir, tmp_path / "tuned"
    config = config_files.load_config(f"configs/fine_tuning.py:{run}")
    assert boxes.written_out(tiny_run.config.model).items() <= dict(config.model).items()
    assert config.data.max_length == tiny_run.config.data.max_length
    changes = {"data.directory": str(tmp_path), "data.test": "", "optimizer.frozen": "encoder"}
    machine = {"data.data_dir": tiny_run.config.data.data_dir, "compilation_cache": ""}
    steps = {"train.num_steps": 3, "evaluate.every": 3, "optimizer.schedule.warmup_steps": 1}
    config.update_from_flattened_dict({**changes, **machine, **steps})
    train.train(config, tuned)
    before, after = (
        weights.flatten(saved_model.load(saved_config.read_config(folder), folder).params)
        for folder in (run, tuned)
    )
    same = {path for path in before if np.array_equal(before[path], after[path])}
    assert same == {path for path in before if path.startswith("encoder/")} != set()
    results = [saved_config.read_config(folder).vocabulary.fingerprint for folder in (run, tuned)]
    assert results[0] == results[1]
    changed = config.copy_and_resolve_references()
    changed.optimizer.frozen = ""
    said = r"config.optimizer.frozen='encoder', now it is ''"
    with pytest.raises(ValueError, match=said):  # the optimizer's state has another form
        train.train(changed, tuned)


@pytest.mark.parametrize(
    ("run", "content", "words"),
    [
        ("", None, r"expected configs/fine_tuning.py:RUN with the workdir of a run, found ''"),
        ("run", None, r"found '.*run', which holds no config.json"),
        (
            *("run", '{"task": "../launch", "architecture": "", "model": {}}'),
            r"config.json: task '../launch' is none of this folder's",
        ),
        ("run", "{", r"Expecting property name"),
        ("run", '{"model_type": "gpt2"}', r"config.json is no config of a run"),
        ("run", "[1]", r"config.json is no config of a run"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(run, content, words, tmp_path):
    if content:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.json").write_text(content)
    variant = f":{tmp_path / run}" if run else ""
    with pytest.raises(UserError, match=rf"\A--config=.*{words}.*\Z"):
        config_files.load_config(f"configs/fine_tuning.py{variant}")
