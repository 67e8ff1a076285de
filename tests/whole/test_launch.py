"""The command line: what it understands, one line for each mistake, and what the configs hold."""

import ast
import contextlib
import functools
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import flax.traverse_util
import pytest
from ml_collections import ConfigDict

import launch
from configs import quickstart, wmt_base
from transformer import modes
from transformer.checkpoints import config_files
from transformer.errors import UserError
from transformer.models.transformer import Transformer
from transformer.modes import command_line, prepare
from transformer.storage import streams

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted(path.stem for path in ROOT.glob("configs/[!_]*.py"))
PRESETS = ("paper", "t2t_v1", "t2t_v3")
QUICK = "--config=configs/quickstart.py"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def typed(*arguments):
    """What `launch` makes of a command line: (mode, workdir, config)."""
    return command_line.parse(list(arguments))


def mistake(*arguments):
    """The one line that a mistaken command line is answered with, before a mode is imported."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the caller looks at the words)
        command_line.parse(list(arguments))
    assert launch.user_error_line(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def variants(name):
    return [name, *(f"{name}.py:{p}" for p in PRESETS)] if name.startswith("wmt_") else [name]


def load(name):
    """A config by the name of its file, or NAME.py:VARIANT."""
    return config_files.load_config(f"configs/{name}" + ("" if ".py" in name else ".py"))


# What is understood


def test_no_arguments_but_a_config():
    mode, workdir, config = typed(QUICK)
    assert (mode, workdir) == ("train", Path("runs/quickstart"))
    assert config.to_dict() == quickstart.get_config().to_dict()


@pytest.mark.parametrize(
    ("arguments", "workdir"),
    [
        ([QUICK, "--workdir=some/where"], "some/where"),
        ([QUICK, "--workdir", "some/where"], "some/where"),
        (["--config", "configs/quickstart.py"], "runs/quickstart"),
        (["--config=configs/wmt_base.py:t2t_v3"], "runs/wmt_base-t2t_v3"),
        (["--config=./configs/../configs/wmt_base.py:t2t_v1"], "runs/wmt_base-t2t_v1"),
        (["--mode=prepare", "--config=configs/wmt_base.py"], "runs/wmt_base"),
    ],
)
def test_workdir(arguments, workdir):
    assert typed(*arguments)[1] == Path(workdir)


def test_keys_are_set():
    _, _, config = typed(
        *(QUICK, "--config.model.d_model=32", "--config.model.dropout_rate=0"),
        *("--config.data.pack=false", "--config.data.test=some file", "--config.vocabulary.size=9"),
        "--config.evaluate.tokenize=",
    )
    assert config.model.d_model == 32
    assert config.model.dropout_rate == 0.0
    assert isinstance(config.model.dropout_rate, float)
    assert config.data.pack is False
    assert config.data.test == "some file"
    assert config.evaluate.tokenize == ""
    assert config.model.d_ff == quickstart.get_config().model.d_ff


@pytest.mark.parametrize(
    ("argument", "value"),
    [("--config.data.pack", True), ("--noconfig.data.pack", False), ("--config.data.pack=1", True)],
)
def test_bools(argument, value):
    assert typed(QUICK, argument)[2].data.pack is value


def test_the_last_of_two_values_counts():
    _, _, config = typed(QUICK, "--config.train.seed=1", "--config.train.seed=2")
    assert config.train.seed == 2


def test_tuples():
    config = ConfigDict({"some": {"sizes": (1, 2)}})
    assert command_line.override(config, ["--config.some.sizes=(3, 4, 5)"]).some.sizes == (3, 4, 5)


@pytest.fixture
def trained(tmp_path):
    """A function of {key: value, None to delete it}: a workdir with the quickstart's config.json,
    but for these."""

    def write(changes):
        values = config_files.flatten(quickstart.get_config()) | {"versions.jax": "1"} | changes
        content = flax.traverse_util.unflatten_dict(values, sep=".")
        for key, value in changes.items():
            if value is None:
                *groups, name = key.split(".")
                del functools.reduce(dict.get, groups, content)[name]
        (tmp_path / "config.json").write_text(json.dumps(content))
        return f"--workdir={tmp_path}"

    return write


@pytest.mark.parametrize("mode", modes.FROM_WORKDIR)
def test_a_workdir_brings_its_config(mode, trained, tmp_path, caplog):
    caplog.set_level("INFO")
    workdir = trained({"decode.top_k": 9, "train.num_steps": 77})
    found = typed(f"--mode={mode}", workdir, "--config.decode.beam_width=7")
    assert found[:2] == (mode, tmp_path)
    assert found[2].decode.beam_width == 7
    assert (found[2].decode.top_k, found[2].train.num_steps) == (9, 77)
    assert found[2].model.to_dict() == quickstart.get_config().model.to_dict()
    assert found[2].parallel.mesh == (0, 1, 1)  # JSON has lists
    assert not caplog.text


def test_keys_that_another_version_did_not_know_take_their_default(trained, caplog):
    caplog.set_level("INFO")
    changes = {"decode.top_k": None, "model.remat": None, "decode.older": 3, "gone": "x"}
    _, _, config = typed("--mode=translate", trained(changes))
    assert config.to_dict() == quickstart.get_config().to_dict()
    [line] = [record.getMessage() for record in caplog.records]  # said once
    assert "it lacks decode.top_k, model.remat, which take their defaults" in line
    assert "it has decode.older, gone, which nothing reads" in line


@pytest.mark.parametrize("key", ["architecture", "model.norm", "vocabulary.shared"])
def test_what_the_parameters_depend_on_has_no_default(trained, key):
    said = mistake("--mode=translate", trained({key: None}))
    assert f"config.json has no {key}" in said
    assert f"today's default is {config_files.flatten(wmt_base.get_config())[key]!r}" in said


def test_another_architecture_has_keys_of_its_own(trained):
    changes = {"architecture": "mine", "model.norm": None, "model.gates": 3}
    _, _, config = typed("--mode=translate", trained(changes))
    assert config.model.gates == 3
    assert "norm" not in config.model


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "decode.beam_width",
            "4",
            "config.decode.beam_width is an integer, such as 4, found '",
        ),
        ("decode", 5, "config.decode is a group of keys, found 5"),
        ("train.num_steps", {"x": 1}, "config.train.num_steps is an integer"),
        ("model.d_model", 1.5, "config.model.d_model is an integer"),
    ],
)
def test_a_value_of_another_type_in_a_workdir(trained, tmp_path, key, value, words):
    trained({})
    content = json.loads((tmp_path / "config.json").read_text())
    *groups, name = key.split(".")
    functools.reduce(dict.get, groups, content)[name] = value
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert words in mistake("--mode=translate", f"--workdir={tmp_path}")


@pytest.mark.parametrize("content", ["[]", "3", "{", '{"a.b": 1}', "[" * 10**5, '{"__class__": 1}'])
def test_a_config_json_that_is_no_config(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    said = mistake("--mode=translate", f"--workdir={tmp_path}")
    assert f"damaged: {tmp_path}/config.json" in said


def test_a_config_is_looked_for_beside_launch_py_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert typed(QUICK)[2].to_dict() == quickstart.get_config().to_dict()
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "quickstart.py").write_text(OWN)
    assert typed(QUICK)[2].mine.gates == 3  # the current folder goes before


OWN = """
from configs import quickstart
def get_config():
    config = quickstart.get_config()
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
        ("def get_config(): return {}", ["returns a dict, expected an ml_collections.ConfigDict"]),
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
        (BARE + '{"train": 3})', ["config.train is a group of keys", "3"]),
        (BARE + '{"parallel": {"mesh": [1]}})', ["config.parallel.mesh is a tuple", "[1]"]),
    ],
)
def test_a_mistake_in_a_config_file(content, words, tmp_path):
    (tmp_path / "own.py").write_text(content)
    said = mistake(f"--config={tmp_path}/own.py")
    for word in ("own.py", *words):
        assert word in said


def test_every_mode_has_its_function():
    for place in modes.MODES.values():
        module, _, function = place.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_help(capsys):
    launch.main(["--help"])
    assert capsys.readouterr().out.strip() == launch.__doc__.strip()
    launch.main([QUICK, "--help"])
    out = capsys.readouterr().out
    assert "d_model: 128" in out
    assert "num_steps: " in out


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--config=FILE", "configs/quickstart.py"]),
        (["--mode=prepare"], ["--mode=prepare", "--config=FILE"]),
        (["--config"], ["--config", "--help"]),
        (["--mode=tarin", QUICK], ["'tarin'", *modes.MODES, "did you mean train"]),
        (["--config=configs/quickstrat.py"], ["quickstrat", "mean configs/quickstart.py", "wmt_"]),
        (["--config=configs"], ["--config=configs is a folder", "configs/quickstart.py"]),
        (["--config=configs/wmt_base.py:t2t_v9"], ["'t2t_v9'", *PRESETS]),
        (["--config=configs/quickstart.py:v2"], ["'v2'", "configs/quickstart.py", "no variants"]),
        ([QUICK, "stray"], ["'stray'", "--config.KEY=VALUE"]),
        ([QUICK, "--", "stray"], ["--config.KEY=VALUE"]),
        ([QUICK, "--config.model.d_model", "5"], ["'5'", "'='"]),
        ([QUICK, "--wordkir=x"], ["--wordkir=x", "did you mean --workdir"]),
        ([QUICK, "--config.model.d_modl=3"], ["config.model.d_modl;", "mean config.model.d_model"]),
        ([QUICK, "--config.d_model=3"], ["no key config.d_model", "mean config.model.d_model"]),
        ([QUICK, "--config.model=3"], ["no key config.model;", "config.model.d_model"]),
        ([QUICK, "--config.model.zzzz=3"], ["no key config.model.zzzz"]),
        ([QUICK, "--noconfig.data.pak"], ["no key config.data.pak", "mean config.data.pack"]),
        (
            [QUICK, "--config.train.num_steps=abc"],
            ["train.num_steps=abc", "an integer, such as 800"],
        ),
        ([QUICK, "--config.train.num_steps=1.5"], ["train.num_steps=1.5", "an integer"]),
        ([QUICK, "--config.train.num_steps="], ["config.train.num_steps", "an integer"]),
        ([QUICK, "--config.model.d_model"], ["--config.model.d_model=VALUE", "128"]),
        ([QUICK, "--config.model.d_model", "--config.train.seed=1"], ["--config.model.d_model=VA"]),
        ([QUICK, "--noconfig.model.d_model"], ["--config.model.d_model=VALUE"]),
        ([QUICK, "--noconfig.data.pack=1"], ["--config.data.pack=VALUE", "True"]),
        ([QUICK, "--config.data.pack=maybe"], ["config.data.pack=maybe", "True or False"]),
        ([QUICK, "--config.model.dropout_rate=high"], ["dropout_rate=high", "a number"]),
        (
            [QUICK, "--config.train.seed=1", "--config.train.keep=x"],
            ["train.keep=x", "an integer"],
        ),
        (["--mode=translate"], ["--mode=translate", "--workdir=DIR"]),
        (["--mode=evaluate", QUICK], ["--mode=evaluate", "--workdir=DIR"]),
        (["--mode=evaluate", QUICK, "--workdir=x"], ["takes no --config=FILE", "--workdir=DIR"]),
        (["--mode=evaluate", "--workdir=transformer"], ["transformer holds no config.json"]),
        (["--mode=translate", "--workdir=no/where"], ["no/where does not exist", "config.json"]),
        (["--mode=translate", "--workdir=README.md"], ["README.md is a file, expected a folder"]),
        (["--mode=score"], ["--mode=score", "--workdir=DIR"]),
        (["--mode=align", QUICK], ["--mode=align", "--workdir=DIR"]),
        (["--config=requirements.txt"], ["requirements.txt", "expected a Python file"]),
        (["--conifg=configs/quickstart.py"], ["did you mean --config?"]),
        ([QUICK, "--beam_width=2"], ["did you mean --config.decode.beam_width?"]),
        ([QUICK, "--max_length=2"], ["config.data.max_length or --config.decode.max_length?"]),
        (["--conifg.model.d_model=2"], ["did you mean --config.model.d_model?"]),
        (["--mode=translate", "--workdir=x", "source.txt"], ["did you mean < source.txt?"]),
        (["--mode=translate", "tests"], ["did you mean --workdir=tests?"]),
        (["configs/quickstart.py"], ["did you mean --config=configs/quickstart.py?"]),
        (["plan", QUICK], ["did you mean --mode=plan?"]),
        (
            [QUICK, "--config.model.d_model=64", "--config.model.d_model=big"],  # a recalled line
            ["--config.model.d_model=big: ", "an integer"],
        ),
        (
            [QUICK, "--workdir=~nobody-of-this-name/x"],
            ["'~nobody-of-this-name/x' is not a valid path"],
        ),
        ([QUICK, "--workdir=a\0b"], ["a null byte"]),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(arguments, words):
    said = mistake(*arguments)
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("architecture", "transformr", "transformer"),
        ("model.norm", "both", "'post', 'pre'"),
        ("model.positions", "none", "'interleaved', 'concatenated', 'learned'"),
        ("model.tied_embeddings", "some", "'all', 'target', 'none'"),
        ("model.activation", "tanh", "'relu', 'gelu'"),
        ("model.dtype", "float8", "'float32', 'bfloat16'"),
        ("loss.smoothed_over", "none", "all_classes, wrong_classes"),
        ("parallel.strategy", "vmap", "pmap, jit"),
        ("evaluate.weights", "bets", "average, best, latest"),
        ("evaluate.tokenize", "14a", "13a"),
        ("vocabulary.kind", "word", "bpe, unigram"),
        ("model.num_heads", 3, "config.model.d_model=128"),
        ("model.num_heads", 0, "at least 1"),
        ("model.d_model", 0, "at least 1"),
        ("model.dropout_rate", 1.0, "below 1"),
        ("loss.label_smoothing", -0.1, "at least 0"),
        ("model.key_size", -1, "at least 0"),
        ("model.value_size", -1, "at least 0"),
        ("model.norm_epsilon", -1e-6, "at least 0"),
        (
            "optimizer.schedule.factor",
            float("nan"),
            "config.optimizer.schedule.factor is a finite number",
        ),
        ("optimizer.schedule.factor", 1e39, "config.optimizer.schedule.factor is a finite number"),
        ("optimizer.schedule.factor", -1.0, "above 0"),
        ("optimizer.arguments.b1", 1.0, "below 1"),
        ("optimizer.arguments.b2", -0.1, "below 1"),
        ("optimizer.arguments.eps", 0.0, "above 0"),
        ("optimizer.clip_norm", -1.0, "at least 0"),
        ("optimizer.clip_norm", float("inf"), "config.optimizer.clip_norm is a finite"),
        ("model.dropout_rate", float("nan"), "config.model.dropout_rate is a finite number"),
        ("evaluate.every", -1, "at least 0"),
        ("data.max_length", 65, "config.data.row_length=64"),
        ("data.batch_tokens", 63, "config.data.row_length=64"),
        ("data.corpus", "builtn", "builtin"),
        ("data.source_language", "de", "'ko' and 'en'"),
        ("evaluate.split", "tset", "train, validation, test"),
        ("evaluate.samples", -1, "at least 0"),
        ("evaluate.ensemble", "/nonexistent", "holds no config.json"),
        ("vocabulary.shared", False, "config.vocabulary.shared=True"),
        ("vocabulary.model", "no/where", "does not exist"),
        ("train.num_steps", 0, "at least 1"),
        ("train.accumulate", 0, "at least 1"),
        ("loss.blocks", 0, "at least 1"),
        ("decode.max_length", 1, "at least 16"),
        ("decode.beam_width", 0, "at least 1"),
        ("decode.length_penalty", "gmnt", "gnmt, power, none"),
        ("decode.length_alpha", -1.0, "at least 0"),
        ("model.positions", "learned", "config.model.max_positions=0"),
    ],
)
def test_a_value_that_cannot_work(key, value, right, tmp_path, data_dir, monkeypatch):
    """Said before anything is compiled, and no workdir is left behind."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    workdir = tmp_path / "run"
    with pytest.raises(ValueError) as error:  # noqa: PT011 (looked at below)
        launch.main(
            [
                *(QUICK, f"--workdir={workdir}", f"--config.data.data_dir={data_dir}"),
                f"--config.{key}={value}",
            ]
        )
    said = str(error.value)
    assert launch.user_error_line(error.value)
    assert "\n" not in said
    assert right in said
    assert str(value) in said or value is False
    assert not workdir.exists()


@pytest.mark.parametrize("mode", ["train", "prepare"])
def test_a_workdir_that_cannot_be_made(mode, tmp_path):
    """Said before anything else is made."""
    data = tmp_path / "data"
    arguments = [f"--mode={mode}", QUICK, "--workdir=/dev/null/x", f"--config.data.data_dir={data}"]
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
        ([QUICK, "--config.model.d_modl=3"], "config.model.d_model"),
        ([QUICK, "--config.model.norm=both"], "config.model.norm"),
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
        monkeypatch.setattr(sys, "stdout", streams.open_output(os.dup(full.fileno())))
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
def test_closed_streams(name, arguments, words, trained, monkeypatch):
    workdir = trained({})
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
    [
        ([], ".cache/transformer"),
        (["--config.compilation_cache=~/some/where"], "some/where"),
    ],
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


@pytest.fixture
def evaluated(tiny_run, tmp_path, capsys):
    """A function of a workdir and more arguments: its scores on a few sentences of the test set."""
    from transformer.tasks import splits

    sides = splits.pairs(tiny_run.config, "test").read(range(16))
    for language, lines in zip(("ko", "en"), sides, strict=True):
        (tmp_path / f"test.{language}").write_text("".join(f"{line}\n" for line in lines))
    arguments = [
        *("--config.data.corpus=parallel_text", f"--config.data.directory={tmp_path}"),
        f"--config.data.data_dir={tiny_run.config.data.data_dir}",
    ]

    def evaluate(workdir, *more):
        launch.main(["--mode=evaluate", f"--workdir={workdir}", *arguments, *more])
        return json.loads(capsys.readouterr().out)

    return evaluate


@pytest.mark.slow
def test_an_ensemble_of_a_run_with_itself_is_the_run(tiny_run, evaluated, tmp_path):
    workdir = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    alone = evaluated(workdir)
    both = evaluated(workdir, f"--config.evaluate.ensemble={tiny_run.workdir}")
    assert alone["bleu"] > 0
    assert alone["sentences"] == 16
    for name in ("bleu", "chrf", "loss", "nats_per_token", "accuracy"):
        assert both[name] == pytest.approx(alone[name], abs=1e-5)


@pytest.mark.slow
def test_an_ensemble_of_two_steps_is_another_model(tiny_run, evaluated, tmp_path):
    """The logarithm of a mean is above the mean of the logarithms: so it is better than half."""
    workdir = shutil.copytree(tiny_run.workdir, tmp_path / "copy")
    early = shutil.copytree(tiny_run.workdir, tmp_path / "early")
    shutil.rmtree(early / "checkpoints" / "160")
    latest = "--config.evaluate.weights=latest"
    one, other, both = (
        evaluated(folder, latest, f"--config.evaluate.ensemble={ensemble}")["nats_per_token"]
        for folder, ensemble in ((workdir, ""), (early, ""), (workdir, early))
    )
    assert one != pytest.approx(other, abs=1e-3)
    assert both < (one + other) / 2 - 1e-4
    assert both != pytest.approx(one, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["translate", "score", "evaluate"])
def test_an_ensemble_over_two_vocabularies_is_refused(mode, reversal_run, tiny_run):
    keys = [f"--config.evaluate.ensemble={reversal_run}", "--config.evaluate.weights=latest"]
    with pytest.raises(ValueError, match=r"\Aconfig.evaluate.ensemble: [^\n]*\Z") as error:
        launch.main([f"--mode={mode}", f"--workdir={tiny_run.workdir}", *keys])
    assert launch.user_error_line(error.value)
    said = str(error.value)
    assert f"{reversal_run} has another vocabulary than this run" in said
    assert f"--config.vocabulary.model={reversal_run}/vocabulary/shared.model" in said
    assert (reversal_run / "vocabulary" / "shared.model").is_file()


@pytest.mark.slow
def test_spaces_around_an_ensembles_commas(answered, reversal_run):
    found = answered(
        "translate", reversal_run, b"a b\n", **{"evaluate.ensemble": f"{reversal_run} , "}
    )
    assert found == "b a\n"


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


# The allocator


@pytest.fixture
def started(monkeypatch):
    """What `restart_with_allocator` starts anew: a list of (program, arguments)."""
    calls = []
    monkeypatch.setattr(os, "execv", lambda *call: calls.append(call))
    for name in launch.ALLOCATOR:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-O", "launch.py", "--help"])
    monkeypatch.setattr(sys, "argv", ["launch.py", "--help"])
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield calls
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)  # it blocks Ctrl-C until it has started


def test_the_allocator_is_set_up_by_starting_anew_once(started):
    launch.restart_with_allocator()
    assert started == [(sys.executable, [sys.executable, "-O", "launch.py", "--help"])]
    assert launch.ALLOCATOR.items() <= os.environ.items()
    launch.restart_with_allocator()
    assert len(started) == 1


@pytest.mark.parametrize("name", launch.ALLOCATOR)
def test_an_allocator_that_is_set_up_stays_as_it_is(started, name):
    os.environ[name] = "1"
    launch.restart_with_allocator()
    assert not started
    assert os.environ.keys() & launch.ALLOCATOR.keys() == {name}
    assert os.environ[name] == "1"


def test_a_program_that_runs_launch_py_is_left_alone(started, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "ipython"])
    launch.restart_with_allocator()
    assert not started


def test_only_glibc_is_told(started, monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    launch.restart_with_allocator()
    assert not started


# The configs


@pytest.mark.parametrize("name", [v for name in CONFIGS for v in variants(name)])
def test_configs(name):
    """All have the same keys, those that the base config has; values that can be overridden."""
    flat = config_files.flatten(load(name))
    base = config_files.flatten(wmt_base.get_config())
    assert flat.keys() == base.keys()
    for key, value in flat.items():
        assert type(value) in (int, float, bool, str, tuple)
        assert type(value) is type(base[key])


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_says_how_to_run_it(name):
    text = ast.get_docstring(ast.parse((ROOT / "configs" / f"{name}.py").read_text()))
    assert f"python launch.py --config=configs/{name}.py" in text


def test_every_key_is_read():
    """The model's keys are its fields; every other one is named somewhere in transformer/."""
    config = wmt_base.get_config()
    fields = {f for f in Transformer.__dataclass_fields__ if f not in ("parent", "name")}
    assert set(config.model) == fields - {"source_vocab_size", "target_vocab_size"}
    code = "".join(path.read_text() for path in ROOT.glob("transformer/**/*.py"))
    for key in config_files.flatten(config):
        assert key.split(".")[-1] in code


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_can_work(name):
    prepare.check(load(name))


PAPER = {
    "architecture": "transformer",
    "data.max_length": 128,
    "data.batch_tokens": 25_000,
    "vocabulary.shared": True,
    "model.num_layers": 6,
    "model.norm": "post",
    "model.final_norm": False,
    "model.norm_epsilon": 1e-6,
    "model.positions": "interleaved",
    "model.tied_embeddings": "all",
    "model.activation": "relu",
    "model.attention_bias": False,
    "model.attention_dropout_rate": 0.0,
    "model.activation_dropout_rate": 0.0,
    "loss.label_smoothing": 0.1,
    "loss.smoothed_over": "all_classes",
    "optimizer.schedule.warmup_steps": 4000,
    "optimizer.schedule.factor": 1.0,
    "optimizer.arguments.b1": 0.9,
    "optimizer.arguments.b2": 0.98,
    "optimizer.arguments.eps": 1e-9,
    "optimizer.clip_norm": 0.0,
    "parallel.strategy": "pmap",
    "evaluate.weights": "average",
    "decode.beam_width": 4,
    "decode.method": "beam",
    "decode.length_penalty": "gnmt",
    "decode.length_alpha": 0.6,
    "decode.extra_length": 50,
}
BASE = {
    "model.d_model": 512,
    "model.d_ff": 2048,
    "model.num_heads": 8,
    "model.dropout_rate": 0.1,
    "train.num_steps": 100_000,
    "evaluate.average_last": 5,
}
BIG = {
    "model.d_model": 1024,
    "model.d_ff": 4096,
    "model.num_heads": 16,
    "model.dropout_rate": 0.3,
    "train.num_steps": 300_000,
    "evaluate.average_last": 20,
}
ENDE = {
    "data.corpus": "wmt14_translate/de-en",
    "data.source_language": "en",
    "data.target_language": "de",
    "vocabulary.size": 37_000,
}
ENFR = {
    "data.corpus": "wmt14_translate/fr-en",
    "data.source_language": "en",
    "data.target_language": "fr",
    "vocabulary.size": 32_000,
}
V1 = {
    "model.positions": "concatenated",
    "loss.smoothed_over": "wrong_classes",
    "decode.extra_length": 100,
}
V3 = V1 | {
    "model.norm": "pre",
    "model.final_norm": True,
    "model.attention_dropout_rate": 0.1,
    "model.activation_dropout_rate": 0.1,
    "optimizer.schedule.factor": 2.0,
    "optimizer.schedule.warmup_steps": 8000,
    "optimizer.arguments.b2": 0.997,
}
WMT = {
    "wmt_base": BASE | ENDE,
    "wmt_big": BIG | ENDE,
    "wmt_enfr_base": BASE | ENFR,
    # The paper's section 6.1: 0.1 instead of 0.3 for English to French.
    "wmt_enfr_big": BIG | ENFR | {"model.dropout_rate": 0.1},
}


@pytest.mark.parametrize("name", WMT)
@pytest.mark.parametrize(("preset", "changes"), [("paper", {}), ("t2t_v1", V1), ("t2t_v3", V3)])
def test_golden_presets(name, preset, changes):
    if (name, preset) == ("wmt_enfr_big", "t2t_v3"):  # the program's transformer_big_enfr
        changes = changes | {"model.d_ff": 8192, "model.tied_embeddings": "none"}
    flat = config_files.flatten(load(f"{name}.py:{preset}"))
    expected = PAPER | WMT[name] | changes
    assert {key: flat[key] for key in expected} == expected
    if preset == "paper":
        assert config_files.flatten(load(name)) == flat
    else:  # a preset changes what it is said to change and nothing else
        paper = config_files.flatten(load(name))
        assert {key for key in flat if flat[key] != paper[key]} == changes.keys()


def test_a_failed_process_waits_for_no_thread(monkeypatch):
    """Orbax's wait five minutes where a save failed by half, and Python's own exit for them."""
    assert "jax" in sys.modules
    ended = []
    monkeypatch.setattr(launch.os, "_exit", ended.append)
    with contextlib.suppress(SystemExit):
        launch.leave(1)
    assert ended == [1]
