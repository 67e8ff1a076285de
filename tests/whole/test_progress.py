"""A tiny run, as a terminal shows it."""

import json
import os
import pty
import re
import subprocess
import sys
import termios

import pytest
from helpers import reversal
from helpers.runs import ROOT

# What a run shows while it works, in this order; each with a bar or, where nothing can be counted,
# by its name.
BARS = (
    *("tokenise validation", "tokenise test", "tokenise train", "pack", "train"),
    *("translate validation", "loss of validation"),
    *("translate test", "loss of test"),
)
WAITS = "learn the vocabulary", "dry run: a step with 8 rows of 32 positions", "dry run: validation"


def on_a_terminal(command):
    """Runs a command with a terminal of 120 columns as standard error; returns what it shows."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while block := os.read(master, 1 << 16):
            shown += block
    except OSError:  # the terminal's other end is closed: the process has ended
        pass
    os.close(master)
    result = process.stdout.read()
    assert process.wait() == 0, shown.decode()
    return shown.decode(), json.loads(result)


@pytest.mark.slow
def test_every_stage_has_a_bar_on_a_terminal(tmp_path, tiny_values):
    reversal.write_text(tmp_path, train=240, validation=10, test=10)
    values = tiny_values | {"data.directory": tmp_path, "data.data_dir": tmp_path / "data"}
    values |= {"data.batch_tokens": 256, "train.num_steps": 6, "evaluate.every": 0}
    values |= {"evaluate.samples": 0, "compilation_cache": ""}
    keys = [f"--config.{key}={value}" for key, value in values.items()]
    command = [sys.executable, "launch.py", "--config=configs/parallel_text.py", *keys]
    shown, result = on_a_terminal([*command, f"--workdir={tmp_path / 'run'}"])
    assert result["split"] == "test"
    places = [re.search(rf"(?<!\w ){bar}: +\d+%\|.*?\| \d+/\d+ \[", shown) for bar in BARS]
    assert all(places), [bar for bar, place in zip(BARS, places, strict=True) if not place]
    assert [place.start() for place in places] == sorted(place.start() for place in places)
    for wait in WAITS:
        assert f"{wait} ..." in shown
    assert {*re.findall(r"\| \d+/\d+ \[\d\d:\d\d<(\d\d:\d\d|\?)", shown)} - {"?"}  # the time left
