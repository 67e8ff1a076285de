"""launch.py as a program: help, exit status, closed streams, caches."""

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import checkpoints
from helpers.command_line import OWN_MODE, TEXT, trained

import launch
from transformer import registry
from transformer.errors import UserError
from transformer.runtime import standard_streams

ROOT = Path(__file__).resolve().parents[2]


def test_help(capsys, monkeypatch):
    monkeypatch.setitem(registry.MODES, "mine", OWN_MODE)
    launch.main(["--help"])
    general, _, rest = launch.__doc__.strip().partition("MODES")
    printed = capsys.readouterr().out.strip()
    assert printed.startswith(general)
    assert printed.endswith(rest)
    assert "--mode=align" in printed
    launch.main([TEXT, "--help"])
    out = capsys.readouterr().out
    assert "d_model: 256" in out
    assert "num_steps: " in out
    assert "bandwidth: " not in out
    launch.main(["--mode=mine", TEXT, "--help"])
    assert "bandwidth: " in capsys.readouterr().out


# Mistakes


@pytest.mark.parametrize("mode", ["train", "prepare"])
def test_a_workdir_that_cannot_be_made(mode, tmp_path):
    """Said before anything else is made."""
    data = tmp_path / "data"
    arguments = [
        f"--mode={mode}",
        TEXT,
        "--workdir=/dev/null/x",
        f"--config.data.data_dir={data}",
    ]
    with pytest.raises(UserError, match="cannot create the folder /dev/null/x: Not a directory"):
        launch.main(arguments)
    assert not data.exists()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied"),
        (OSError(30, "Read-only file system", "/a/b"), "/a/b: Read-only file system"),
        (FileNotFoundError(2, "No such file or directory", "/a/b"), ""),
        (OSError(5, "Input/output error", "/a/b"), ""),
        (PermissionError(13, "Permission denied"), ""),
        (RuntimeError("a fault"), ""),
        (ValueError("a library's"), ""),
        (UserError("what was typed"), "what was typed"),
    ],
)
def test_what_is_a_mistake_of_the_user(error, line):
    assert launch.user_error_line(error) == line


# The whole program


def run(*arguments, cwd=ROOT, env=None, lines=""):
    return subprocess.run(
        [sys.executable, ROOT / "launch.py", *arguments],
        input=lines,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=env,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([TEXT, "--config.model.d_modl=3"], "config.model.d_model"),
        ([TEXT, "--config.model.norm=both"], "config.model.norm"),
        (["--config=configs/wmt_base.py:t2t_v9"], "t2t_v3"),
        (["--mode=translate", "--workdir=configs"], "configs holds no config.json"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, words, tmp_path):
    for name in ("configs", "transformer"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("launch.py: ")
    assert words in line
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def left(monkeypatch):
    """`leave` ends the process at once where JAX is loaded: here, by SystemExit."""

    def end(status):
        raise SystemExit(status)

    monkeypatch.setattr(launch.os, "_exit", end)


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UserError("what was typed"), 2, "launch.py: what was typed\n"),
        (
            PermissionError(13, "Permission denied", "/a/b"),
            2,
            "launch.py: /a/b: Permission denied\n",
        ),
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
    with pytest.raises(SystemExit) as ended:
        launch.run([])
    assert ended.value.code == status
    out, said = capsys.readouterr()
    assert not out
    assert said.startswith(words)
    assert said == words or words == "Traceback"


@pytest.mark.usefixtures("left")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_results_that_nobody_takes(monkeypatch, capsys):
    """A full disk: one line, and no more words at the exit."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stdout", standard_streams.open_output(os.dup(full.fileno())))
        with pytest.raises(SystemExit) as ended:
            launch.run(["--help"])
        assert ended.value.code == 2
        sys.stdout.flush()  # as the exit does
    said = capsys.readouterr().err
    assert said == "launch.py: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("stdout", ["--help"], "standard output is closed"),
        ("stdin", ["--mode=translate"], "standard input is closed, but --mode=translate reads it"),
        ("stdin", ["--mode=score"], "standard input is closed"),
        ("stdin", ["--mode=align"], "standard input is closed"),
    ],
)
def test_closed_streams(name, arguments, words, tmp_path, monkeypatch):
    workdir = trained(tmp_path, {})
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(UserError, match=words):
        launch.main([workdir, *arguments])


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
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_help_and_status_0(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--mode=translate" in done.stdout
    assert done.stderr == ""


# Compiled programs


@pytest.fixture
def at_home(tmp_path):
    """A function that runs launch.py at an empty home, without a cache in the environment."""
    home = tmp_path / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    env |= {"HOME": str(home), "JAX_PLATFORMS": "cpu"}

    def start(*arguments):
        done = run(*arguments, cwd=home, env=env, lines="a b c\tc b a\n")
        assert done.returncode == 0, done.stderr
        return done.stdout, {str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()}

    return start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "folder"),
    [([], ".cache/transformer"), (["--config.compilation_cache=~/some/where"], "some/where")],
)
def test_compiled_programs_are_kept(at_home, reversal_run, tmp_path, arguments, folder):
    """A second process finds what the first one has compiled; a workdir does not say where."""
    workdir = shutil.copytree(reversal_run, tmp_path / "strangers")
    content = json.loads((workdir / "config.json").read_text())
    content["compilation_cache"] = str(tmp_path / "home" / "theirs")
    (workdir / "config.json").write_text(json.dumps(content))
    score = ["--mode=score", f"--workdir={workdir}", *arguments]
    said, kept = at_home(*score)
    assert kept
    assert all(name.startswith(f"{folder}/") for name in kept)
    # What compiles in about 0.1 s is kept by one process and not by another.
    model = lambda names: {name for name in names if "log_prob" in name}
    assert model(kept)
    again, now = at_home(*score)
    assert (again, model(now)) == (said, model(kept))


@pytest.mark.slow
def test_no_compiled_programs_are_kept(at_home, reversal_run):
    score = ["--mode=score", f"--workdir={reversal_run}"]
    assert at_home(*score, "--config.compilation_cache=")[1] == set()


# Ensembles


@pytest.mark.slow
def test_a_refused_ensemble_is_one_line_and_status_2(reversal_run, tiny_run, tmp_path):
    translate = ["--mode=translate", f"--workdir={reversal_run}"]
    for other, words in (
        (tiny_run.workdir, "has another vocabulary"),
        (tmp_path, f"{tmp_path} holds no config.json"),
    ):
        done = run(*translate, f"--config.evaluate.ensemble={other}", lines="a b\n")
        assert done.returncode == 2
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        assert line.startswith("launch.py: ")
        assert words in line


# A failure


def test_a_failed_process_waits_for_no_thread(monkeypatch):
    """Orbax's wait five minutes where a save failed by half, and Python's own exit for them."""
    assert "jax" in sys.modules
    ended = []
    monkeypatch.setattr(launch.os, "_exit", ended.append)
    with contextlib.suppress(SystemExit):
        launch.leave(1)
    assert ended == [1]


def test_a_failed_save_is_one_line(tmp_path, no_file_over, monkeypatch, caplog, capfd):
    """Orbax logs a traceback of each of its threads, TensorStore prints one of each array."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    for library in ("absl", "asyncio", "fsspec", "gcsfs", "jax", "orbax", "sacrebleu"):
        caplog.set_level(logging.ERROR, library)  # restored when the test ends
    launch.log_to_standard_error()
    saved = checkpoints.checkpoints_of(tmp_path, keep=3)
    with no_file_over(4096):
        assert saved.save(1, *checkpoints.state(1))  # begun
        assert not saved.close()
    assert [record.getMessage().partition(" MB")[2] for record in caplog.records] == [" left"]
    assert "Traceback" not in caplog.text + capfd.readouterr().err
