"""The command line: what it understands, one line for each mistake, and what the configs hold."""

import ast
import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from absl import flags
from ml_collections import ConfigDict

import launch
from configs import quickstart, wmt_base
from transformer import models

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted(path.stem for path in ROOT.glob("configs/[!_]*.py"))
PRESETS = ("paper", "t2t_v1", "t2t_v3")
QUICK = "--config=configs/quickstart.py"


@pytest.fixture(autouse=True)
def untouched_flags(monkeypatch):
    """A process parses its flags once; here, many times. Paths are relative to the repository."""
    monkeypatch.chdir(ROOT)

    def reset():
        for name in ("config", "mode", "workdir"):
            flags.FLAGS[name].unparse()
        flags.FLAGS.unparse_flags()

    reset()
    yield
    reset()


def typed(*arguments):
    """What `launch` makes of a command line: (mode, workdir, config)."""
    return launch.parse(list(arguments))


def mistake(*arguments):
    """The one line that a mistaken command line is answered with, before a mode is imported."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the caller looks at the words)
        launch.parse(list(arguments))
    assert launch.mistake(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def variants(name):
    return [name, *(f"{name}.py:{p}" for p in PRESETS)] if name.startswith("wmt_") else [name]


def load(name):
    """A config by the name of its file, or NAME.py:VARIANT."""
    return launch.load_config(f"configs/{name}" + ("" if ".py" in name else ".py"))


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
    assert launch.override(config, ["--config.some.sizes=(3, 4, 5)"]).some.sizes == (3, 4, 5)


@pytest.mark.parametrize("mode", launch.FROM_WORKDIR)
def test_a_workdir_brings_its_config(mode, tmp_path):
    config = quickstart.get_config()
    content = {**config.to_dict(), "versions": {"jax": "1"}, "some": {"sizes": [1, [2, 3]]}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    found = typed(f"--mode={mode}", f"--workdir={tmp_path}", "--config.decode.beam_width=7")
    assert found[:2] == (mode, tmp_path)
    assert found[2].some.sizes == (1, (2, 3))
    assert found[2].decode.beam_width == 7
    assert found[2].model.to_dict() == config.model.to_dict()


def test_a_config_of_another_version_is_refused(tmp_path):
    content = quickstart.get_config().to_dict()
    del content["decode"]["method"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"config\.json has no decode\.method: another version"):
        typed("--mode=evaluate", f"--workdir={tmp_path}")


def test_every_mode_has_its_function():
    for mode in launch.MODES:
        tree = ast.parse((ROOT / "transformer" / f"{mode}.py").read_text())
        assert mode in [x.name for x in tree.body if isinstance(x, ast.FunctionDef)]


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
        (["--mode=tarin", QUICK], ["'tarin'", *launch.MODES, "did you mean train"]),
        (["--config=configs/quickstrat.py"], ["quickstrat", "mean configs/quickstart.py", "wmt_"]),
        (["--config=configs"], ["--config=configs does not exist", "configs/quickstart.py"]),
        (["--config=configs/wmt_base.py:t2t_v9"], ["'t2t_v9'", *PRESETS]),
        (["--config=configs/quickstart.py:v2"], ["'v2'", "configs/quickstart.py", "no variants"]),
        ([QUICK, "stray"], ["'stray'", "--config.KEY=VALUE"]),
        ([QUICK, "--", "stray"], ["--config.KEY=VALUE"]),
        ([QUICK, "--config.model.d_model", "5"], ["'5'", "'='"]),
        ([QUICK, "--wordkir=x"], ["--wordkir=x", "did you mean --workdir"]),
        ([QUICK, "--config.model.d_modl=3"], ["config.model.d_modl;", "mean config.model.d_model"]),
        ([QUICK, "--config.d_model=3"], ["no key config.d_model", "mean config.model.d_model"]),
        ([QUICK, "--config.model=3"], ["no key config.model;"]),
        ([QUICK, "--config.model.zzzz=3"], ["no key config.model.zzzz"]),
        ([QUICK, "--noconfig.data.pak"], ["no key config.data.pak", "mean config.data.pack"]),
        ([QUICK, "--config.train.num_steps=abc"], ["train.num_steps=abc", "type int", "as in "]),
        ([QUICK, "--config.train.num_steps=1.5"], ["train.num_steps=1.5", "type int"]),
        ([QUICK, "--config.train.num_steps="], ["config.train.num_steps", "type int"]),
        ([QUICK, "--config.model.d_model"], ["--config.model.d_model=VALUE", "128"]),
        ([QUICK, "--config.model.d_model", "--config.train.seed=1"], ["--config.model.d_model=VA"]),
        ([QUICK, "--noconfig.model.d_model"], ["--config.model.d_model=VALUE"]),
        ([QUICK, "--noconfig.data.pack=1"], ["--config.data.pack=VALUE", "True"]),
        ([QUICK, "--config.data.pack=maybe"], ["config.data.pack=maybe", "type bool"]),
        ([QUICK, "--config.model.dropout_rate=high"], ["dropout_rate=high", "type float"]),
        ([QUICK, "--config.train.seed=1", "--config.train.keep=x"], ["train.keep=x", "type int"]),
        (["--mode=translate"], ["--mode=translate", "--workdir=DIR"]),
        (["--mode=evaluate", QUICK], ["--mode=evaluate", "--workdir=DIR"]),
        (["--mode=evaluate", QUICK, "--workdir=x"], ["--workdir=DIR", "config"]),
        (["--mode=evaluate", "--workdir=transformer"], ["transformer holds no config.json"]),
        (["--mode=translate", "--workdir=no/where"], ["no/where", "config.json"]),
        (["--mode=score"], ["--mode=score", "--workdir=DIR"]),
        (["--mode=attention", QUICK], ["--mode=attention", "--workdir=DIR"]),
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
        ("loss.label_smoothing", -0.1, "from 0"),
        ("data.max_length", 65, "config.data.row_length=64"),
        ("data.batch_tokens", 63, "config.data.row_length=64"),
        ("data.corpus", "builtn", "builtin"),
        ("data.source_language", "de", "'ko' and 'en'"),
        ("evaluate.split", "tset", "train, validation, test"),
        ("vocabulary.shared", False, "config.vocabulary.shared=True"),
        ("vocabulary.model", "no/where", "does not exist"),
        ("train.num_steps", 0, "at least 1"),
        ("train.accumulate", 0, "at least 1"),
        ("train.loss_blocks", 0, "at least 1"),
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
    assert launch.mistake(error.value)
    assert "\n" not in said
    assert right in said
    assert str(value) in said or value is False
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("file", "code", "typed_wrong"),
    [
        ("transformer/ours.py", "raise ValueError('what was typed')", True),
        ("transformer/ours.py", "import json; json.loads('{')", False),
        ("transformer/ours.py", "[].index(3)", False),
        ("transformer/ours.py", "int('three')", False),
        (".venv/lib/site-packages/theirs.py", "raise ValueError('a fault')", False),
    ],
)
def test_only_what_we_raise_is_a_mistake_of_the_user(
    tmp_path, monkeypatch, file, code, typed_wrong
):
    monkeypatch.setattr(launch, "HERE", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (any at all)
        runpy.run_path(str(path))
    assert bool(launch.mistake(error.value)) is typed_wrong


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied"),
        (OSError(30, "Read-only file system", "/a/b"), "/a/b: Read-only file system"),
        (FileNotFoundError(2, "No such file or directory", "/a/b"), ""),
        (OSError(5, "Input/output error", "/a/b"), ""),
        (PermissionError(13, "Permission denied"), ""),
        (RuntimeError("a fault"), ""),
    ],
)
def test_a_path_that_cannot_be_used_is_a_mistake_of_the_user(error, line):
    assert launch.mistake(error) == line


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


def test_a_fault_is_a_traceback_and_status_1(tmp_path):
    (tmp_path / "config.json").write_text("[]")
    done = run("--mode=translate", f"--workdir={tmp_path}")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stdout == ""


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
def test_compiled_programs_are_kept(at_home, reversal_run, arguments, folder):
    """A second process finds all that the first one has compiled."""
    score = ["--mode=score", f"--workdir={reversal_run}", *arguments]
    said, kept = at_home(*score)
    assert kept
    assert all(name.startswith(f"{folder}/") for name in kept)
    assert any("log_prob" in name for name in kept)
    assert at_home(*score) == (said, kept)


@pytest.mark.slow
def test_no_compiled_programs_are_kept(at_home, reversal_run):
    score = ["--mode=score", f"--workdir={reversal_run}"]
    assert at_home(*score, "--config.compilation_cache=")[1] == set()


def test_the_environments_folder_goes_before_the_configs(tmp_path):
    """So that no test writes into a home."""
    folder = jax.config.jax_compilation_cache_dir
    assert folder == os.environ["JAX_COMPILATION_CACHE_DIR"]
    launch.keep_compiled(str(tmp_path / "other"))
    assert jax.config.jax_compilation_cache_dir == folder
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0


# Ensembles


@pytest.fixture
def evaluated(tiny_run, tmp_path, capsys):
    """A function of a workdir and more arguments: its scores on a few sentences of the test set."""
    from transformer import prepare

    sides = prepare.corpus(tiny_run.config, "test").read(range(16))
    for language, lines in zip(("ko", "en"), sides, strict=True):
        (tmp_path / f"test.{language}").write_text("".join(f"{line}\n" for line in lines))
    arguments = ["--config.data.corpus=parallel_text", f"--config.data.directory={tmp_path}"]

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
    shutil.rmtree(early / "checkpoints" / "parameters" / "160")
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
    assert launch.mistake(error.value)
    said = str(error.value)
    assert f"{reversal_run} has another vocabulary than {tiny_run.workdir}" in said
    assert f"--config.vocabulary.model={tiny_run.workdir}/vocabulary/shared.model" in said
    assert (tiny_run.workdir / "vocabulary" / "shared.model").is_file()


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
    """What `keep_memory` starts anew: a list of (program, arguments)."""
    calls = []
    monkeypatch.setattr(os, "execv", lambda *call: calls.append(call))
    for name in launch.ALLOCATOR:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-O", "launch.py", "--help"])
    monkeypatch.setattr(sys, "argv", ["launch.py", "--help"])
    return calls


def test_the_allocator_is_set_up_by_starting_anew_once(started):
    launch.keep_memory()
    assert started == [(sys.executable, [sys.executable, "-O", "launch.py", "--help"])]
    assert launch.ALLOCATOR.items() <= os.environ.items()
    launch.keep_memory()
    assert len(started) == 1


@pytest.mark.parametrize("name", launch.ALLOCATOR)
def test_an_allocator_that_is_set_up_stays_as_it_is(started, name):
    os.environ[name] = "1"
    launch.keep_memory()
    assert not started
    assert os.environ.keys() & launch.ALLOCATOR.keys() == {name}
    assert os.environ[name] == "1"


def test_a_program_that_runs_launch_py_is_left_alone(started, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "ipython"])
    launch.keep_memory()
    assert not started


def test_only_glibc_is_told(started, monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    launch.keep_memory()
    assert not started


# The configs


@pytest.mark.parametrize("name", [v for name in CONFIGS for v in variants(name)])
def test_configs(name):
    """All have the same keys, those that the base config has; values that can be overridden."""
    flat = launch.flatten(load(name))
    base = launch.flatten(wmt_base.get_config())
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
    architecture = models.ARCHITECTURES[config.architecture]
    fields = {f for f in architecture.__dataclass_fields__ if f not in ("parent", "name")}
    assert set(config.model) == fields - {"source_vocab_size", "target_vocab_size"}
    code = "".join(path.read_text() for path in ROOT.glob("transformer/**/*.py"))
    for key in launch.flatten(config):
        assert key.split(".")[-1] in code


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_can_work(name):
    from transformer import prepare

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
    "optimizer.warmup_steps": 4000,
    "optimizer.factor": 1.0,
    "optimizer.adam.beta1": 0.9,
    "optimizer.adam.beta2": 0.98,
    "optimizer.adam.epsilon": 1e-9,
    "optimizer.adam.clip_norm": 0.0,
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
    "optimizer.factor": 2.0,
    "optimizer.warmup_steps": 8000,
    "optimizer.adam.beta2": 0.997,
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
    flat = launch.flatten(load(f"{name}.py:{preset}"))
    expected = PAPER | WMT[name] | changes
    assert {key: flat[key] for key in expected} == expected
    if preset == "paper":
        assert launch.flatten(load(name)) == flat
    else:  # a preset changes what it is said to change and nothing else
        paper = launch.flatten(load(name))
        assert {key for key in flat if flat[key] != paper[key]} == changes.keys()
