"""Config files and the config.json of older workdirs: keys, types, defaults, one line a mistake."""

import functools
import json

import pytest
from helpers.command_line import OWN_MODE, TEXT, mistake, trained, typed
from ml_collections import ConfigDict

from configs import parallel_text, wmt_base
from transformer import registry
from transformer.workdir import config_files, run_config, workdir


def test_keys_that_another_version_did_not_know_take_their_default(tmp_path, caplog):
    caplog.set_level("INFO")
    changes = {"decode.top_k": None, "model.remat": None, "decode.older": 3, "gone": "x"}
    _, _, config = typed("--mode=translate", trained(tmp_path, changes))
    assert config.to_dict() == parallel_text.get_config().to_dict()
    [line] = [record.getMessage() for record in caplog.records]  # said once
    assert "it lacks decode.top_k, model.remat, which take their defaults" in line
    assert "it has decode.older, gone, which nothing reads" in line


def test_a_modes_own_keys_are_never_taken_from_a_workdir(tmp_path, caplog, monkeypatch):
    """They name files to write, and a workdir may be somebody else's."""
    monkeypatch.setitem(registry.MODES, "mine", OWN_MODE._replace(start="workdirs"))
    caplog.set_level("INFO")
    changes = {"attention.layer": 2, "mine.device": "/elsewhere.html"}
    _, _, config = typed("--mode=align", trained(tmp_path, changes))
    assert config.attention.layer == 0
    [line] = [record.getMessage() for record in caplog.records]
    assert "it has attention.layer, mine.device, which nothing reads" in line
    assert "attention" not in typed("--mode=evaluate", f"--workdir={tmp_path}")[2]
    other = tmp_path / "other"
    other.mkdir()
    trained(other, {})
    _, _, config = typed("--mode=mine", str(tmp_path), str(other))
    assert config.mine.device == ""


@pytest.mark.parametrize("key", ["architecture", "model.norm", "vocabulary.shared"])
def test_what_the_parameters_depend_on_has_no_default(tmp_path, key):
    said = mistake("--mode=translate", trained(tmp_path, {key: None}))
    assert f"config.json has no {key}" in said
    default = config_files.flatten(wmt_base.get_config())[key]
    assert f"today's default is {json.dumps(default)}" in said


def test_another_architecture_has_keys_of_its_own(tmp_path):
    changes = {"architecture": "mine", "model.norm": None, "model.gates": 3}
    _, _, config = typed("--mode=translate", trained(tmp_path, changes))
    assert config.model.gates == 3
    assert "norm" not in config.model


def test_a_group_may_be_empty(tmp_path):
    """Such as the arguments of an optimizer that is used with optax's defaults."""
    config = parallel_text.get_config()
    config.optimizer.name, config.optimizer.arguments = "adamw", ConfigDict()
    workdir.write_config(config, tmp_path)
    saved = run_config.read_with_defaults(tmp_path)
    assert saved.optimizer.arguments == ConfigDict()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("decode", 5, "config.decode must be a group of keys, found 5"),
        ("train.num_steps", {"x": 1}, "config.train.num_steps must be an integer, such as "),
    ],
)
def test_a_value_of_another_type_in_a_workdir(tmp_path, key, value, words):
    trained(tmp_path, {})
    content = json.loads((tmp_path / "config.json").read_text())
    *groups, name = key.split(".")
    functools.reduce(dict.get, groups, content)[name] = value
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert words in mistake("--mode=translate", f"--workdir={tmp_path}")


def test_a_config_is_looked_for_beside_launch_py_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert typed(TEXT)[2].to_dict() == parallel_text.get_config().to_dict()
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "parallel_text.py").write_text(OWN)
    assert typed(TEXT)[2].mine.gates == 3  # the current folder goes before


OWN = """
from configs import parallel_text
def get_config():
    config = parallel_text.get_config()
    config.mine = type(config)({"gates": 3})
    config.optimizer.schedule.factor = 2
    return config
"""


def test_a_forks_config_may_have_keys_of_its_own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    _, _, config = typed(f"--config={tmp_path}/own.py", "--config.mine.gates=4")
    assert config.mine.gates == 4
    assert config.optimizer.schedule.factor == 2.0


BARE = "import ml_collections\ndef get_config():\n    return ml_collections.ConfigDict("


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def other(): pass", ["no function get_config()"]),
        ("get_config = 3", ["no function get_config()"]),
        ("def get_config(): return {}", ["must return an ml_collections.ConfigDict, not a dict"]),
        ("def get_config(:", ["line 1: SyntaxError"]),
        ("import nowhere", ["line 1, `import nowhere`: ModuleNotFoundError"]),
        ("\nprint(x)", ["line 2, `print(x)`: NameError: name 'x'"]),
        (OWN.replace("factor = 2", "factor = 'x'"), ["line 6", "'factor'", "'float'"]),
        (OWN.replace("factor = 2", "warmup_steps = 1e3"), ["line 6", "'warmup_steps'", "'int'"]),
        (OWN.replace("factor = 2", "facto.r = 2"), ["line 6", "AttributeError"]),
        (OWN.replace("get_config():\n", "get_config(x):\n"), ["TypeError", "argument: 'x'"]),
        (BARE + '{"model": {"d_model": "128"}})', ["config.model.d_model", "an integer", "'128'"]),
        (
            BARE + '{"train": {"num_steps": 1e3}})',
            ["config.train.num_steps", "an integer", "1000.0"],
        ),
        (BARE + '{"train": {"keep": True}})', ["config.train.keep", "an integer", "True"]),
        (BARE + '{"train": {"keep": None}})', ["config.train.keep", "an integer", "None"]),
        (BARE + '{"train": 3})', ["config.train must be a group of keys", "3"]),
        (BARE + '{"parallel": {"mesh": [1]}})', ["config.parallel.mesh must be a tuple", "[1]"]),
    ],
)
def test_a_mistake_in_a_config_file(content, words, tmp_path):
    (tmp_path / "own.py").write_text(content)
    said = mistake(f"--config={tmp_path}/own.py")
    for word in ("own.py", *words):
        assert word in said
