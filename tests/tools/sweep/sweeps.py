"""Sweeps whose runs are those of fake_launch.py."""

import sys
from pathlib import Path

from transformer.tools.sweep import children, sweep_file

BASE = """
config = "configs/parallel_text.py"
[overrides]
model.num_layers = 1
train.num_steps = 20
"""


def fake(patch):
    """Makes sweeps start FAKE, and look at it often."""
    patch.setattr(children, "LAUNCH", Path(__file__).with_name("fake_launch.py"))
    patch.setattr(children, "POLL_SECONDS", 0.02)
    patch.setattr(children, "environments", lambda processes: [{}])
    # Half of the time of a process that does next to nothing.
    patch.setattr(sys, "executable", sys._base_executable)


def read(folder, text, *arguments, base=BASE):
    """The rows of a file with this text, behind that of `base`."""
    file = folder / "some.toml"
    file.write_text(base + text)
    return sweep_file.read(file, folder / "sweep", arguments)


def runs(folder, text, *arguments):
    """The runs of `read`, in order."""
    (folder / "sweep").mkdir(exist_ok=True)
    return [run for row in read(folder, text, *arguments) for run in row.runs]
