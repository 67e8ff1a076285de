"""Config files: where they are looked for, and one line for a mistake in one."""

import concurrent.futures
import sys
import types

import pytest
from helpers.command_line import TEXT, mistake, typed

from configs import parallel_text
from transformer.workdir import config_files


def test_a_config_is_looked_for_beside_launch_py_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "configs", mine := types.ModuleType("configs"))  # the user's
    assert typed(TEXT)[2].to_dict() == parallel_text.get_config().to_dict()
    assert sys.modules["configs"] is mine
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "parallel_text.py").write_text(OWN)
    assert typed(TEXT)[2].mine.gates == 3  # the current folder goes before


def test_several_threads_load_configs():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        configs = [*pool.map(config_files.load_config, ["multi30k"] * 32)]
    assert {x.to_json() for x in configs} == {configs[0].to_json()}


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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def other(): pass", ["AttributeError", "has no attribute 'get_config'"]),
        ("def get_config(): return {}", ["must return a ConfigDict, found {}"]),
        ("def get_config(:", ["SyntaxError", "line 1"]),
        ("import nowhere", ["line 1, `import nowhere`: ModuleNotFoundError"]),
        ("\nprint(x)", ["line 2, `print(x)`: NameError: name 'x'"]),
        (OWN.replace("factor = 2", "factor = 'x'"), ["line 6", "'factor'", "'float'"]),
        (OWN.replace("factor = 2", "warmup_steps = 1e3"), ["line 6", "'warmup_steps'", "'int'"]),
        (OWN.replace("factor = 2", "facto.r = 2"), ["line 6", "AttributeError"]),
        (OWN.replace("get_config():\n", "get_config(x):\n"), ["TypeError", "argument: 'x'"]),
    ],
)
def test_a_mistake_in_a_config_file(content, words, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "own.py").write_text(content)
    said = mistake(f"--config={tmp_path}/link/own.py")
    assert not [word for word in ("own.py", *words) if word not in said]
