"""What a workdir holds beside checkpoints: config.json and the vocabulary."""

import json
from importlib import metadata

import pytest
from helpers.command_line import mistake
from ml_collections import ConfigDict

from configs import parallel_text
from transformer import registry
from transformer.errors import UserError
from transformer.modes import overrides
from transformer.tasks import vocabularies
from transformer.workdir import run_config, workdir


@pytest.mark.parametrize("content", ["[]", "3", "{", '{"a.b": 1}', "[" * 10**5, '{"__class__": 1}'])
def test_a_config_json_that_is_no_config(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    said = mistake("--mode=translate", f"--workdir={tmp_path}")
    assert f"damaged: {tmp_path}/config.json" in said


def test_config_names_vocabulary_and_versions(tiny_run):
    config = json.loads((tiny_run.workdir / "config.json").read_text())
    vocabulary = vocabularies.read(tiny_run.workdir, run_config.read_config(tiny_run.workdir))
    assert config["vocabulary"]["fingerprint"] == vocabulary.fingerprint
    assert len(vocabulary.fingerprint) >= 16
    assert config["versions"].keys() == set(workdir.PACKAGES)
    for name, version in config["versions"].items():
        assert version == metadata.version(name)
    assert config["model"] == tiny_run.config.model.to_dict()
    assert not config.keys() & {x for mode in registry.MODES for x in overrides.mode_keys(mode)}


def test_a_resumed_run_may_change_what_its_state_does_not_depend_on(tmp_path, caplog):
    saved, config = parallel_text.get_config(), parallel_text.get_config()
    config.train.num_steps += 1
    config.optimizer.schedule = ConfigDict({"name": "constant_schedule", "value": 1e-4})
    workdir.check_same_run(config, saved, tmp_path, workdir.FREE)
    [record] = caplog.records
    assert "schedule was {'d_model': 256, " in record.getMessage()
    assert "now it is {'name': 'constant_schedule', 'value': 0.0001}" in record.getMessage()
    del config.optimizer.arguments.b2
    with pytest.raises(UserError, match=r"config.optimizer.arguments.b2=0.98, now it has no value"):
        workdir.check_same_run(config, saved, tmp_path, workdir.FREE)
    for key, value in {"optimizer.clip_norm": 1.0, "train.seed": 5, "model.d_ff": 8}.items():
        other = parallel_text.get_config()
        other.update_from_flattened_dict({key: value})
        with pytest.raises(UserError, match=f"config.{key}=.*, now it is {value}: use the old"):
            workdir.check_same_run(other, saved, tmp_path, workdir.FREE)


def test_a_workdir_of_another_task_is_refused_by_the_task(tmp_path, caplog):
    """Not by a key that this task happens to lack, or to have by another default."""
    saved, config = parallel_text.get_config(), parallel_text.get_config()
    config.architecture, config.model = "mine", ConfigDict({"d_model": 8, "gates": 3})
    with pytest.raises(UserError, match=r"config.architecture='transformer', now it is 'mine'"):
        workdir.check_same_run(config, saved, tmp_path, workdir.FREE)
    config.task = "toy"
    del config.decode
    with pytest.raises(UserError, match=r"config.task='translation', now it is 'toy'"):
        workdir.check_same_run(config, saved, tmp_path, workdir.FREE)
    assert not caplog.records


def test_a_written_config_is_read_back_without_who_the_processes_were(tmp_path):
    config = parallel_text.get_config()
    config.parallel.update(coordinator="host:1", num_processes=2, process_id=1, mesh=(2, 1, 1))
    workdir.write_config(config, tmp_path)
    saved = run_config.read_config(tmp_path)
    assert saved.parallel.to_dict() == {
        **parallel_text.get_config().parallel.to_dict(),
        "mesh": (2, 1, 1),  # JSON has lists only
    }
    assert saved.model == config.model
