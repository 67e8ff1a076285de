"""Command lines as they are typed, and the workdirs that they name."""

import functools
import json

import flax.traverse_util
import pytest

import launch
from configs import parallel_text
from transformer.modes import command_line
from transformer.registry import Mode
from transformer.workdir import key_tables

TEXT = "--config=configs/parallel_text.py"
# A mode to register, with keys of its own.
OWN_MODE = Mode("", "", start="config", keys="helpers.command_line:KEYS_OF_OWN_MODE")

KEYS_OF_OWN_MODE = {"mine.num_devices": 0, "mine.device": "", "mine.bandwidth": [0.4, "above 0"]}


def typed(*arguments):
    """What `launch` makes of a command line: (mode, workdir, config)."""
    return command_line.parse(list(arguments))


def mistake(*arguments):
    """The one line that a mistaken command line is answered with, before a mode is imported."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the caller looks at the words)
        command_line.parse(list(arguments))
    assert launch.one_line(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def trained(folder, changes):
    """The --workdir of a folder that gets a config.json of TEXT with these changes: {key: value,
    None to delete it}."""
    values = key_tables.flatten(parallel_text.get_config()) | {"versions.jax": "1"} | changes
    content = flax.traverse_util.unflatten_dict(values, sep=".")
    for key, value in changes.items():
        if value is None:
            *groups, name = key.split(".")
            del functools.reduce(dict.get, groups, content)[name]
    (folder / "config.json").write_text(json.dumps(content))
    return f"--workdir={folder}"
