"""A tiny run, as a terminal shows it."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from helpers import reversal

ROOT = Path(__file__).resolve().parents[2]
# What a run shows while it works, in this order; each with a bar or, where nothing can be counted,
# by its name.
BARS = (
    *("tokenise validation", "tokenise test", "tokenise train", "pack", "train"),
    *("translate validation", "loss of validation"),
    *("translate test", "loss of test"),
)
WAITS = "learn the vocabulary", "dry run: a step with 8 rows of 32 positions", "dry run: validation"


def command(folder):
    """Returns the command line of a tiny run."""
    reversal.write_text(folder, train=240, validation=10, test=10)
    values = {"data.directory": folder, "data.data_dir": folder / "data", "compilation_cache": ""}
    values |= {"data.source_language": "ko", "data.target_language": "en", "vocabulary.size": 293}
    values |= {"data.max_length": 32, "data.row_length": 32, "data.batch_tokens": 256}
    values |= {"model.d_model": 16, "model.d_ff": 16, "model.num_heads": 2, "model.num_layers": 1}
    values |= {"train.num_steps": 6, "train.log_every": 2, "evaluate.every": 0}
    values |= {"decode.beam_width": 1, "decode.extra_length": 2, "evaluate.samples": 0}
    keys = [f"--config.{key}={value}" for key, value in values.items()]
    config = "--config=configs/parallel_text.py"
    return [sys.executable, "launch.py", config, f"--workdir={folder / 'run'}", *keys]


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
def test_every_stage_has_a_bar_on_a_terminal(tmp_path):
    shown, result = on_a_terminal(command(tmp_path))
    assert result["split"] == "test"
    places = [re.search(rf"(?<!\w ){bar}: +\d+%\|.*?\| \d+/\d+ \[", shown) for bar in BARS]
    assert all(places), [bar for bar, place in zip(BARS, places, strict=True) if not place]
    assert [place.start() for place in places] == sorted(place.start() for place in places)
    for wait in WAITS:
        assert f"{wait} ..." in shown
    bars = re.findall(r"\| \d+/\d+ \[\d\d:\d\d<(\d\d:\d\d|\?)", shown)
    assert {*bars} - {"?"}  # the time left
