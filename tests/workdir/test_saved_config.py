"""What a workdir holds beside checkpoints: config.json and the vocabulary."""

import json
from importlib import metadata

import pytest
from helpers.command_line import OWN_MODE, mistake, trained, typed
from ml_collections import ConfigDict

from configs import parallel_text, wmt_base
from transformer import registry
from transformer.errors import UserError
from transformer.tasks import vocabularies
from transformer.workdir import key_tables, saved_config


@pytest.mark.parametrize("content", ["[]", "3", "{", '{"a.b": 1}', "[" * 10**5, '{"__class__": 1}'])
def test_a_config_json_that_is_no_config(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    said = mistake("--mode=translate", f"--workdir={tmp_path}")
    assert f"damaged: {tmp_path}/config.json" in said


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("train.num_steps", 0, "config.train.num_steps must be at least 1, found 0"),
        ("model.sizes[0]", 1, '\'Key "model.sizes[0]"'),
        ("optimizer.schedule", "x", "config.optimizer.schedule must be a group of keys, found 'x'"),
        ("train", [1], "config.train must be a group of keys, found (1,)"),
        ("task", ["a"], "config.task must be one of"),
    ],
)
def test_a_wrong_value_in_config_json_is_one_line(tmp_path, key, value, said):
    said_of_it = mistake("--mode=translate", trained(tmp_path, {key: value}))
    assert said_of_it.startswith(f"{tmp_path}/config.json: {said}")


def test_config_names_vocabulary_and_versions(tiny_run):
    config = json.loads((tiny_run.workdir / "config.json").read_text())
    vocabulary = vocabularies.read(tiny_run.workdir, saved_config.read_config(tiny_run.workdir))
    assert config["vocabulary"]["fingerprint"] == vocabulary.fingerprint
    assert len(vocabulary.fingerprint) >= 16
    assert config["versions"].keys() == set(saved_config.PACKAGES)
    for name, version in config["versions"].items():
        assert version == metadata.version(name)
    # The parts of the boxes are written out, so that a default that changes changes no run.
    assert config["model"] == {**tiny_run.config.model, "norm": "layer(epsilon=1e-06)"}
    of_modes = {key for mode in registry.MODES for key in key_tables.mode_table(mode)}
    assert not key_tables.flatten(ConfigDict(config)).keys() & of_modes


def test_a_resumed_run_may_change_what_its_state_does_not_depend_on(tmp_path, caplog):
    saved, config = parallel_text.get_config(), parallel_text.get_config()
    config.train.num_steps += 1
    config.optimizer.schedule = ConfigDict({"name": "constant_schedule", "value": 1e-4})
    saved_config.check_same_run(config, saved, tmp_path, saved_config.FREE)
    [record] = caplog.records
    assert "schedule was {'d_model': 256, " in record.getMessage()
    assert "now it is {'name': 'constant_schedule', 'value': 0.0001}" in record.getMessage()
    del config.optimizer.arguments.b2
    with pytest.raises(UserError, match=r"config.optimizer.arguments.b2=0.98, now it has no value"):
        saved_config.check_same_run(config, saved, tmp_path, saved_config.FREE)
    changes = {"optimizer.clip_norm": 1.0, "train.seed": 5, "model.d_ff": 8}
    for key, value in {**changes, "optimizer.arguments.eps_root": 0.1}.items():
        other = parallel_text.get_config().unlock()
        other.update_from_flattened_dict({key: value})
        with pytest.raises(UserError, match=f"config.{key}=.*, now it is {value}: use the old"):
            saved_config.check_same_run(other, saved, tmp_path, saved_config.FREE)


def test_a_workdir_of_another_task_is_refused_by_the_task(tmp_path, caplog):
    """Not by a key that this task happens to lack, or to have by another default."""
    saved, config = parallel_text.get_config(), parallel_text.get_config()
    config.architecture, config.model = "mine", ConfigDict({"d_model": 8, "gates": 3})
    with pytest.raises(UserError, match=r"config.architecture='transformer', now it is 'mine'"):
        saved_config.check_same_run(config, saved, tmp_path, saved_config.FREE)
    config.task = "toy"
    del config.decode
    with pytest.raises(UserError, match=r"config.task='translation', now it is 'toy'"):
        saved_config.check_same_run(config, saved, tmp_path, saved_config.FREE)
    assert not caplog.records


def test_a_written_config_is_read_back_without_who_the_processes_were(tmp_path):
    config = parallel_text.get_config()
    config.parallel.update(coordinator="host:1", num_processes=2, process_id=1, mesh=(2, 1, 1))
    saved_config.write_config(config, tmp_path)
    saved = saved_config.read_config(tmp_path)
    assert saved.parallel.to_dict() == {
        **parallel_text.get_config().parallel.to_dict(),
        "mesh": (2, 1, 1),  # JSON has lists only
    }
    assert saved.model == config.model


def test_keys_that_another_version_did_not_know_take_their_default(tmp_path, caplog):
    caplog.set_level("INFO")
    changes = {"decode.min_length": None, "model.remat": None, "decode.older": 3, "gone": "x"}
    _, _, config = typed("--mode=translate", trained(tmp_path, changes))
    assert config.to_dict() == parallel_text.get_config().to_dict()
    lacks, has = (record.getMessage() for record in caplog.records)  # each said once
    assert lacks.endswith("lacks decode.min_length, model.remat, which take their defaults")
    assert has.endswith("has decode.older, gone, which nothing reads")


def test_a_modes_own_keys_are_never_taken_from_a_workdir(tmp_path, caplog, monkeypatch):
    """They name files to write, and a workdir may be somebody else's."""
    monkeypatch.setitem(registry.MODES, "mine", OWN_MODE._replace(start="workdirs"))
    caplog.set_level("INFO")
    changes = {"attention.layer": 2, "mine.device": "/elsewhere.html"}
    _, _, config = typed("--mode=align", trained(tmp_path, changes))
    assert config.attention.layer == 0
    [line] = [record.getMessage() for record in caplog.records]
    assert "has attention.layer, mine.device, which nothing reads" in line
    assert "attention" not in typed("--mode=evaluate", f"--workdir={tmp_path}")[2]
    other = tmp_path / "other"
    other.mkdir()
    trained(other, {})
    _, _, config = typed("--mode=mine", str(tmp_path), str(other))
    assert config.mine.device == ""


@pytest.mark.parametrize("key", ["architecture", "model.norm", "vocabulary.shared"])
def test_what_the_parameters_depend_on_has_no_default(tmp_path, key):
    said = mistake("--mode=translate", trained(tmp_path, {key: None}))
    assert f"config.json: it has no {key}" in said
    default = key_tables.flatten(wmt_base.get_config())[key]
    assert f"today's default is {json.dumps(default)}" in said


def test_a_group_may_be_empty(tmp_path):
    """Such as the arguments of an optimizer that is used with optax's defaults."""
    config = parallel_text.get_config()
    config.optimizer.name, config.optimizer.arguments = "adamw", ConfigDict()
    saved_config.write_config(config, tmp_path)
    saved = saved_config.read_with_defaults(tmp_path)
    assert saved.optimizer.arguments == ConfigDict()
