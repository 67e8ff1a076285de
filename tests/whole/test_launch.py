"""launch.py as a program: help, exit status, closed streams, caches."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys

import pytest
from helpers import checkpoints
from helpers.command_line import OWN_MODE, TEXT
from helpers.runs import ONE_DEVICE, ROOT

import launch
from transformer import registry
from transformer.errors import UserError


def test_help(capsys, monkeypatch):
    monkeypatch.setitem(registry.MODES, "mine", OWN_MODE)
    launch.main(["--help"])
    general, _, rest = launch.__doc__.strip().partition("MODES")
    printed = capsys.readouterr().out.strip()
    assert printed.startswith(general)
    assert printed.endswith(rest)
    for name, mode in registry.MODES.items():
        assert f"--mode={name} {mode.arguments}\n      {mode.about}" in printed
    launch.main([TEXT, "--help"])
    out = capsys.readouterr().out
    assert "d_model" in out
    assert "bandwidth" not in out
    launch.main(["--mode=mine", TEXT, "--help"])
    assert "bandwidth" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["train", "prepare"])
def test_a_workdir_that_cannot_be_made(mode, tmp_path):
    """Said before anything else is made."""
    data = tmp_path / "data"
    for workdir, said in (
        ("/dev/null/x", "cannot create the folder /dev/null/x: Not a directory"),
        (tmp_path / "x[1]", "without backslashes and brackets"),
    ):
        arguments = [f"--mode={mode}", TEXT, f"--workdir={workdir}", "--config.model.num_layers=1"]
        with pytest.raises(UserError, match=said):
            launch.main([*arguments, f"--config.data.data_dir={data}"])
    assert not data.exists()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UserError("what was typed"), 2, "launch.py: what was typed\n"),
        (PermissionError(13, "No permission", "/a/b"), 2, "launch.py: /a/b: No permission\n"),
        (OSError(28, "No space left", "/a/b"), 2, "launch.py: /a/b: No space left\n"),
        (
            *(ValueError("x: No space left on device\n(y)"), 2),
            "launch.py: No space left on device: free some space (see df -h and df -i) and start "
            "again (x: No space left on device (y))\n",
        ),
        (FileNotFoundError(2, "No such file or directory", "/a/b"), 1, "Traceback"),
        (OSError(5, "Input/output error", "/a/b"), 2, "launch.py: /a/b: Input/output error\n"),
        (PermissionError(13, "Permission denied"), 1, "Traceback"),
        (RuntimeError("a fault"), 1, "Traceback"),
        (ValueError("a library's"), 1, "Traceback"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit(143), 143, ""),
    ],
)
def test_status(error, status, words, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr(launch, "main", fail)
    assert launch.run([]) == status
    out, said = capsys.readouterr()
    assert not out
    assert said.startswith(words)
    assert said == words or words == "Traceback"


def to_a_shell(redirections, code):
    """Runs a program with its standard streams redirected; returns (status, standard error)."""
    command = ["sh", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


HELP = "import launch; launch.leave(launch.run(['--help']))"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_results_that_a_full_disk_does_not_take():
    status, said = to_a_shell("> /dev/full", HELP)
    assert status == 2
    assert said.startswith("launch.py: No space left on device: free some space")
    assert len(said.splitlines()) == 1


def test_results_that_nobody_takes():
    assert to_a_shell("| true", f"import time; time.sleep(1); {HELP}")[1] == ""


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    """Libraries would print into it."""
    code = f"""if True:
        import os, sys, launch
        launch.open_closed_streams()
        print("unheard"), print("unheard", file=sys.stderr)
        assert sys.stdin.buffer.read() == b""
        with open({str(tmp_path / "numbers")!r}, "w") as file:
            null = os.stat(os.devnull).st_rdev
            print(file.fileno(), *(os.fstat(i).st_rdev == null for i in range(3)), file=file)
    """
    assert to_a_shell("<&- >&- 2>&-", code) == (0, "")
    number, *null = (tmp_path / "numbers").read_text().split()
    assert int(number) > 2
    assert null == ["True"] * 3


def test_ctrl_c_while_imports_run():
    code = f"""if True:
        import os, runpy, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        sys.argv = [{str(ROOT / "launch.py")!r}, "--help"]
        def watch(event, found):
            if event == "import" and found[0] == "absl.flags":
                os.kill(os.getpid(), signal.SIGINT)
        sys.addaudithook(watch)
        runpy.run_path(sys.argv[0], run_name="__main__")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    # Ended by the signal, of which a shell makes the status 130.
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.slow
def test_compiled_programs_are_kept(reversal_run, tmp_path):
    """A second process finds what the first one has compiled; a workdir does not say where."""
    workdir, home = shutil.copytree(reversal_run, tmp_path / "strangers"), tmp_path / "home"
    content = json.loads((workdir / "config.json").read_text())
    content["compilation_cache"] = str(home / "theirs")
    (workdir / "config.json").write_text(json.dumps(content))
    home.mkdir()
    env = {name: value for name, value in ONE_DEVICE.items() if not name.startswith("JAX_")}
    env |= {"HOME": str(home), "JAX_PLATFORMS": "cpu"}
    said, kept = [], []
    for _ in range(2):
        command = [sys.executable, ROOT / "launch.py", "--mode=score", f"--workdir={workdir}"]
        options = {"input": "a b\tb a\n", "stdout": subprocess.PIPE, "text": True, "check": True}
        said.append(subprocess.run(command, cwd=home, env=env, **options).stdout)
        files = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
        assert all(path.is_relative_to(".cache/transformer") for path in files)
        # What compiles in about 0.1 s is kept by one process and not by another.
        kept.append({path for path in files if "log_prob" in path.name})
    assert said[0] == said[1] != ""
    assert kept[0] == kept[1] != set()


def test_a_failed_process_waits_for_no_thread():
    """Orbax's wait five minutes where a save failed by half, and Python's own exit for them."""
    code = """if True:
        import threading, time, launch
        threading.Thread(target=time.sleep, args=[600]).start()
        print("the last result")
        launch.leave(1)
    """
    assert to_a_shell(">&2", code) == (1, "the last result\n")


def test_a_failed_save_is_one_line(tmp_path, no_file_over, monkeypatch, caplog, capfd):
    """Orbax logs a traceback of each of its threads, TensorStore prints one of each array."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    for library in ("absl", "asyncio", "fsspec", "gcsfs", "jax", "orbax", "sacrebleu"):
        caplog.set_level(logging.ERROR, library)  # restored when the test ends
    launch.log_to_standard_error()
    saved = checkpoints.checkpoints_of(tmp_path, keep=3)
    with no_file_over(4096):
        saved.save(1, *checkpoints.state(1))  # begun
        with pytest.raises(Exception, match="File too large") as raised:
            saved.close()
    line = launch.one_line(raised.value)
    assert line.startswith("File too large: free some space")
    assert f"{tmp_path}/checkpoints" in line
    assert "\n" not in line
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err
