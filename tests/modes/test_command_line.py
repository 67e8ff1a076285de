"""The command line: what it understands, and one line for each mistake."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import OWN_MODE, TEXT, mistake, trained, typed

from configs import parallel_text
from transformer import registry
from transformer.runtime import checksums, paths
from transformer.training import optimizer
from transformer.workdir import key_tables

ROOT = Path(__file__).resolve().parents[2]
# The arguments of Adam and of the paper's schedule, as TEXT has them.
ADAMS = {"b1": 0.9, "b2": 0.98, "eps": 1e-9}
PAPERS = {"name": "inverse_square_root", "d_model": 256, "warmup_steps": 4000, "factor": 1.0}


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("arguments", "workdir"),
    [
        ([TEXT], "runs/parallel_text"),
        ([TEXT, "--workdir=some/where"], "some/where"),
        ([TEXT, "--workdir", "some/where"], "some/where"),
        (["--config", "configs/parallel_text.py"], "runs/parallel_text"),
        (["--config=configs/wmt_base.py:t2t_v3"], "runs/wmt_base-t2t_v3"),
        (["--config=./configs/../configs/wmt_base.py:t2t_v1"], "runs/wmt_base-t2t_v1"),
        (["--mode=prepare", "--config=configs/wmt_base.py"], "runs/wmt_base"),
    ],
)
def test_workdir(arguments, workdir):
    assert typed(*arguments)[1] == Path(workdir)


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["--config.model.d_model=32"], "model.d_model", 32),
        (["--config.optimizer.schedule.d_model=32"], "optimizer.schedule.d_model", 32),
        (["--config.model.dropout_rate=0"], "model.dropout_rate", 0.0),
        (["--config.data.test=some file"], "data.test", "some file"),
        (["--config.evaluate.tokenize="], "evaluate.tokenize", ""),
        (["--config.parallel.mesh=(3, 4, 5)"], "parallel.mesh", (3, 4, 5)),
        (["--config.data.pack=false"], "data.pack", False),
        (["--config.data.pack"], "data.pack", True),
        (["--noconfig.data.pack"], "data.pack", False),
        (["--config.data.pack=1"], "data.pack", True),
        (["--config.train.seed=1", "--config.train.seed=2"], "train.seed", 2),
    ],
)
def test_a_key_is_set_and_no_other(arguments, key, value):
    mode, _, config = typed(TEXT, *arguments)
    values = key_tables.flatten(config)
    assert (mode, values[key], type(values[key])) == ("train", value, type(value))
    expected = key_tables.flatten(parallel_text.get_config())
    if key == "model.d_model":
        expected["optimizer.schedule.d_model"] = value  # which follows it
    assert values == expected | {key: value}


@pytest.mark.parametrize(
    ("given", "arguments", "schedule"),
    [
        ({"name": "sgd"}, {}, PAPERS),
        ({"name": "adam"}, ADAMS, PAPERS),
        ({"name": "lion", "arguments.b1": "0.8"}, {"b1": 0.8}, PAPERS),
        ({"arguments.b1": "0.8", "name": "lion"}, {"b1": 0.8}, PAPERS),
        (
            {"arguments.nesterov": "true", "arguments.mu_dtype": "bfloat16"},
            ADAMS | {"nesterov": True, "mu_dtype": "bfloat16"},
            PAPERS,
        ),
        (
            {"schedule.name": "constant_schedule", "schedule.value": "1e-3"},
            ADAMS,
            {"name": "constant_schedule", "value": 0.001},
        ),
    ],
)
def test_another_optimizer_or_schedule_has_its_own_arguments(given, arguments, schedule):
    """The config's leave with the name that they are of."""
    config = typed(TEXT, *(f"--config.optimizer.{key}={x}" for key, x in given.items()))[2]
    assert config.optimizer.arguments.to_dict() == arguments
    assert config.optimizer.schedule.to_dict() == schedule
    optimizer.check(**config.optimizer.to_dict())


MODES = registry.MODES.items()
OF_TRANSLATION = [name for name, mode in MODES if "translation" in (mode.tasks or "translation")]


@pytest.mark.parametrize("mode", sorted(registry.MODES.keys() - {*OF_TRANSLATION}))
def test_a_mode_of_other_tasks_says_which_to_use(mode, tmp_path):
    said = mistake(f"--mode={mode}", trained(tmp_path, {}))
    assert said.endswith(f"'translation', which has the modes {', '.join(OF_TRANSLATION)}")


@pytest.mark.parametrize(
    "mode", [name for name in OF_TRANSLATION if registry.MODES[name].start == "workdir"]
)
def test_a_workdir_brings_its_config(mode, tmp_path, caplog):
    caplog.set_level("INFO")
    workdir = trained(tmp_path, {"decode.min_length": 9, "train.num_steps": 77})
    folder = ["elsewhere"] if registry.MODES[mode].folder else []
    parsed = typed(f"--mode={mode}", *folder, workdir, "--config.decode.beam_width=7")
    place = (paths.path("elsewhere"), tmp_path) if folder else tmp_path
    assert parsed[:2] == (mode, place)
    assert parsed[2].decode.beam_width == 7
    assert (parsed[2].decode.min_length, parsed[2].train.num_steps) == (9, 77)
    assert parsed[2].model.to_dict() == parallel_text.get_config().model.to_dict()
    assert parsed[2].parallel.mesh == (0, 1, 1)  # JSON has lists
    assert not caplog.text


def test_a_trained_model_keeps_its_sizes(tmp_path):
    """The message names the value that the params were trained with."""
    workdir = trained(tmp_path, {})
    for key, value in {"model.num_layers": "6", "task": "'translation'"}.items():
        said = mistake("--mode=evaluate", workdir, f"--config.{key}=7")
        assert said.endswith(f"config.{key}=7: {tmp_path} was trained with {value}")


def test_a_run_is_resumed_by_its_workdir_s_config(tmp_path):
    """Without what no mode takes from a workdir."""
    changes = {"train.num_steps": 77, "optimizer.schedule.name": "cosine_decay_schedule"}
    changes |= {"optimizer.schedule.decay_steps": 77, "data.data_dir": "/a", "parallel.mesh": [1]}
    workdir = trained(tmp_path, changes | {"parallel.strategy": "jit"})
    arguments = [workdir, "--config.train.num_steps=99", "--config.parallel.strategy=jit"]
    assert mistake(*arguments) == (
        f"{tmp_path} has no checkpoint to resume from: give --config=FILE"
    )
    step = tmp_path / "checkpoints" / "50"
    (step / "opt_state").mkdir(parents=True)
    (step / "opt_state" / "x").touch()
    assert mistake(*arguments).endswith("give --config=FILE")  # incomplete: its first save
    (step / checksums.NAME).write_bytes(checksums.checksums_of(step))
    mode, folder, config = typed(*arguments)
    assert (mode, folder) == ("train", tmp_path)
    assert (config.train.num_steps, config.optimizer.schedule.decay_steps) == (99, 99)
    assert (config.parallel.strategy, config.parallel.mesh) == ("jit", (0, 1, 1))
    assert config.data.data_dir == parallel_text.get_config().data.data_dir
    longer = typed(*arguments, "--config.optimizer.schedule.decay_steps=200")[2]
    assert (longer.train.num_steps, longer.optimizer.schedule.decay_steps) == (99, 200)


@pytest.fixture
def own_mode(monkeypatch):
    monkeypatch.setitem(registry.MODES, "mine", OWN_MODE)


@pytest.mark.usefixtures("own_mode")
def test_a_mode_has_its_own_keys_and_no_other_has_them(tmp_path):
    _, _, config = typed("--mode=mine", TEXT, "--config.mine.num_devices=3")
    assert (config.mine.num_devices, config.mine.bandwidth) == (3, 0.4)
    assert typed("--mode=mine", TEXT)[2].mine.num_devices == 0
    assert {*config} - {"mine"} == {*parallel_text.get_config()}
    said = mistake(TEXT, "--config.mine.device=H100")
    assert said == "--config.mine.device=H100: config.mine.device is read by --mode=mine only"
    said = mistake("--mode=mine", TEXT, "--config.mine.num_device=3")
    assert said.endswith("no key config.mine.num_device; did you mean --config.mine.num_devices?")
    said = mistake("--mode=mine", TEXT, "--config.mine.bandwidth=0")
    assert said == "config.mine.bandwidth must be above 0, found 0.0"
    assert "mean --config.mine.bandwidth?" in mistake("--mode=mine", TEXT, "--bandwith=1")
    said = mistake("--mode=translate", trained(tmp_path, {}), "--config.attention.layer=2")
    assert said.endswith("is read by --mode=align only")


def test_a_mode_of_several_configs_gets_what_is_set_for_them(monkeypatch):
    own = OWN_MODE._replace(start="configs", folder=True, arguments="FILE")
    monkeypatch.setitem(registry.MODES, "mine", own)
    keys = ("--config.model.d_model=8", "--noconfig.data.pack")
    _, places, config = typed("--mode=mine", "a/b.toml", *keys, "--config.mine.num_devices=3")
    assert places == (Path("a/b.toml"), Path("runs/b"))
    assert (config.arguments, config.mine.num_devices, config.mine.bandwidth) == (keys, 3, 0.4)
    assert typed("--mode=mine", "b.toml", "--workdir=c")[1] == (Path("b.toml"), Path("c"))
    for wrong in ([], ["a", "b"], ["a", TEXT]):
        assert "expected --mode=mine FILE, found" in mistake("--mode=mine", *wrong)
    said = mistake("--mode=mine", "b.toml", "--config.mine.num_device=3")
    assert said.endswith("no key config.mine.num_device; did you mean --config.mine.num_devices?")


@pytest.mark.usefixtures("own_mode")
def test_a_config_file_may_set_a_modes_keys(tmp_path):
    config = "from configs import parallel_text\n\n\ndef get_config():\n    "
    config += "return type(x := parallel_text.get_config())({**x, 'mine': {'device': %s}})\n"
    (tmp_path / "own.py").write_text(config % "'H100'")
    arguments = ["--mode=mine", f"--config={tmp_path}/own.py"]
    found = typed(*arguments, "--config.mine.num_devices=8")[2].mine
    assert (found.device, found.num_devices, found.bandwidth) == ("H100", 8, 0.4)
    assert "mine" not in typed(f"--config={tmp_path}/own.py")[2]  # training does not keep it
    (tmp_path / "own.py").write_text(config % "100")
    assert mistake(*arguments) == "config.mine.device must be a string, such as '', found 100"
    (tmp_path / "own.py").write_text((config % "''").replace("device", "devize"))
    assert "config.mine.devize of the config; did you mean mine.device" in mistake(*arguments)


def test_the_keys_of_modes_are_found_without_jax():
    """Importing it takes 0.4 s, and a mistyped command is answered at once."""
    command = "from transformer.modes import command_line as x; import sys; "
    command += "x.parse(['--config=parallel_text']); "
    command += "[x.key_tables.mode_table(mode) for mode in x.MODES]; print({*sys.modules} & %s)"
    names = {"jax", "numpy", "flax", "tensorflow_datasets", "sentencepiece", "orbax"}
    done = subprocess.run([sys.executable, "-c", command % names], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_every_mode_has_its_function():
    """And a task; one of several may be deleted."""
    for mode in registry.MODES.values():
        assert callable(registry.load(mode.code))
        assert not mode.tasks or registry.TASKS.keys() & mode.tasks


def usage(mode):
    return f"expected --mode={mode} {registry.MODES[mode].arguments}, found --mode={mode}"


STARTS = [
    ("prepare", ["--workdir=x"]),
    ("translate", []),
    ("score", []),
    ("align", [TEXT]),
    ("evaluate", [TEXT, "--workdir=x"]),
    ("import", ["model"]),
    ("import", ["a", "b", "--workdir=x"]),
    ("import", ["a", TEXT, "--workdir=x"]),
    ("export", ["--workdir=x"]),
    ("compare", ["a"]),
    ("compare", ["a", "b", "a/"]),
    ("compare", ["a", "b", "--workdir=a"]),
]
STARTS = [start for start in STARTS if start[0] in registry.MODES]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["expected --mode=train --config=FILE", "--workdir=DIR to resume", "found nothing"]),
        (["--workdir=transformer"], ["transformer/config.json does not exist: expected the"]),
        (["--config"], ["--config", "--help"]),
        (["--mode=tarin", TEXT], ["'tarin'", *registry.MODES, "did you mean train"]),
        (["--config=configs/paralel_text.py"], ["paralel", "did you mean parallel_text?"]),
        (["--config=wmt_bas"], ["--config=wmt_bas must be", "did you mean wmt_base?"]),
        (["--config=configs"], ["--config=configs must be an existing Python file"]),
        (["--config=requirements.txt"], ["must be an existing Python file", "--workdir"]),
        (["--config=configs/wmt_base.py:t2t_v9"], ["'t2t_v9'", "paper", "t2t_v1", "t2t_v3"]),
        (["--config=configs/parallel_text.py:v2"], ["'v2'", "parallel_text.py", "no variants"]),
        ([TEXT, "stray"], ["'stray'", "--config.KEY=VALUE"]),
        ([TEXT, "--config.model.d_model", "5"], ["'5'", "'='"]),
        ([TEXT, "--wordkir=x"], ["--wordkir=x", "did you mean --workdir"]),
        ([TEXT, "--config.model.d_modl=3"], ["d_modl;", "mean --config.model.d_model"]),
        ([TEXT, "--config.d_model=3"], ["no key config.d_model", "mean --config.model.d_model"]),
        ([TEXT, "--config.model=3"], ["no key config.model"]),
        ([TEXT, "--config.model.zzzz=3"], ["no key config.model.zzzz"]),
        ([TEXT, "--noconfig.data.pak"], ["no key config.data.pak", "mean --config.data.pack"]),
        ([TEXT, "--config.train.num_steps=abc"], ["num_steps=abc", "an integer, such as 30000"]),
        ([TEXT, "--config.train.num_steps=1.5"], ["train.num_steps=1.5", "an integer"]),
        ([TEXT, "--config.train.num_steps=0"], ["train.num_steps must be at least 1, found 0"]),
        ([TEXT, "--config.model.d_model"], ["--config.model.d_model: ", "256"]),
        ([TEXT, "--noconfig.model.d_model"], ["--noconfig.model.d_model: "]),
        ([TEXT, "--noconfig.data.pack=1"], ["--noconfig.data.pack=1: ", "True"]),
        ([TEXT, "--config.data.pack=maybe"], ["config.data.pack=maybe", "True or False"]),
        ([TEXT, "--config.model.dropout_rate=high"], ["dropout_rate=high", "a number"]),
        ([TEXT, "--workdir="], ["--workdir= is empty", "--workdir=DIR"]),
        (["--mode=translate", "--workdir=no/where"], ["no/where/config.json does not exist"]),
        (["--mode=translate", "--workdir=README.md"], ["README.md is a file, expected the folder"]),
        *(([f"--mode={x}", *rest], [" ".join([usage(x), *rest])]) for x, rest in STARTS),
        (["--conifg=configs/parallel_text.py"], ["--config=FILE", "found --conifg=configs"]),
        ([TEXT, "--beam_widht=2"], ["did you mean --config.decode.beam_width?"]),
        ([TEXT, "--conifg.model.d_model=2"], ["did you mean --config.model.d_model?"]),
        (["--mode=translate", "tests"], ["--workdir=DIR", "found --mode=translate tests"]),
        (["configs/parallel_text.py"], ["--config=FILE", "found configs/parallel_text.py"]),
        (["prepare", TEXT], ["unexpected argument 'prepare'", "--mode=MODE"]),
        # A line that was recalled, and added to.
        ([TEXT, "--config.train.keep=64", "--config.train.keep=x"], ["train.keep=x", "an integer"]),
        ([TEXT, "--workdir=~nobody-here/x"], ["'~nobody-here/x' is not a valid path"]),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(arguments, words):
    said = mistake(*arguments)
    for word in words:
        assert word in said
