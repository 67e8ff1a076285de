"""Families and tools can be deleted: what is left imports, lists itself, trains, is tested."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from helpers.runs import ONE_DEVICE, ROOT
from without import without

WINGS = [wing for wing in ("families", "tools") if (ROOT / "transformer" / wing).exists()]
FOLDERS = sorted(
    f"{wing}/{path.parent.name}"
    for wing in WINGS
    for path in ROOT.glob(f"transformer/{wing}/*/__init__.py")
)
# In a process that has imported the libraries, each tree is imported by a process of its own.
IMPORT_ALL = """
import contextlib, importlib, io, os, pathlib, sys
import jax, flax.linen, optax, orbax.checkpoint, tensorflow_datasets, sacrebleu, ml_collections
import fastapi, scipy.stats, sentencepiece

def import_all(tree):
    os.chdir(tree)
    sys.path.insert(0, tree)
    for file in [*pathlib.Path("transformer").rglob("*.py"), *pathlib.Path("configs").glob("*.py")]:
        module = importlib.import_module(".".join(file.with_suffix("").parts))
        if file.match("configs/[!_]*.py") and file.stem != "fine_tuning":
            module.get_config()
    import launch
    without_help = not pathlib.Path("transformer/tools/help").exists()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        launch.main(["--config=parallel_text"] * without_help + ["--help"])
    from transformer import registry
    assert "--mode=train" in printed.getvalue()
    for table in (registry.MODELS, registry.TASKS, registry.CORPORA):
        for code in table.values():
            registry.load(code)
    for mode in registry.MODES.values():
        registry.load(mode.code)

for tree in sys.argv[1:]:
    if not (child := os.fork()):
        try:
            import_all(tree)
        except BaseException as error:
            print(f"{tree}: {error!r}", flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{tree}: the process ended with status {status}", flush=True)
"""


def copy(folder, names=("transformer", "configs")):
    """Copies folders of the project, launch.py and pyproject.toml; returns their root."""
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "launch.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not FOLDERS, reason="all are deleted")
def test_each_family_and_tool_can_be_deleted(tmp_path):
    trees, whole = [], copy(tmp_path / "whole")
    # Each tree has the bytecode of the files that it shares with the whole one.
    own = {key: x for key, x in os.environ.items() if key != "PYTHONPYCACHEPREFIX"}
    subprocess.run([sys.executable, "-m", "compileall", "-q", whole], env=own, check=True)
    for name in FOLDERS:
        without(shutil.copytree(whole, tmp_path / name), [name])
        trees.append(str(tmp_path / name))
        assert not (tmp_path / name / "transformer" / name).exists()
    tree = shutil.copytree(whole, tmp_path / "one after the other")
    for name in FOLDERS:
        if (tree / "transformer" / name).exists():  # not gone with what it needs
            without(tree, [name])
    trees.append(str(tree))
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, *trees]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=own)
    assert (ran.stdout, ran.returncode) == ("", 0), ran.stderr


@pytest.mark.slow
def test_the_tests_of_the_core_need_no_family_and_no_tool(tmp_path):
    """All are collected; those run that look at the whole tree."""
    without(copy(tmp_path, ("transformer", "configs", "tests", "benchmarks", "docs")), WINGS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-m", "not slow", "-k", "test_configs.py or test_rooms.py"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert not ran.returncode, ran.stdout


@pytest.mark.slow
def test_the_core_alone_trains_resumes_evaluates_and_translates(tmp_path, tiny_values):
    without(copy(tmp_path / "core"), WINGS)
    tiny = tiny_values | {"train.save_every": 10, "evaluate.weights": "latest"}
    places = {key: tiny[key] for key in ("data.directory", "data.data_dir")}

    def launch(*arguments, **values):
        keys = [f"--config.{key}={value}" for key, value in (places | values).items()]
        command = [sys.executable, "launch.py", f"--workdir={tmp_path / 'run'}", *arguments, *keys]
        options = {"cwd": tmp_path / "core", "env": ONE_DEVICE, "input": "가 나\n"}
        ran = subprocess.run(command, capture_output=True, text=True, **options)
        assert not ran.returncode, ran.stderr
        return ran

    config = "--config=configs/parallel_text.py"
    first, resumed = (launch(config, **tiny | {"train.num_steps": n}) for n in (10, 20))
    starts = (tmp_path / "run" / "starts.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in starts] == [0, 10]
    assert [json.loads(ran.stdout.splitlines()[-1])["step"] for ran in (first, resumed)] == [10, 20]
    assert json.loads(launch("--mode=evaluate").stdout)["split"] == "test"
    assert launch("--mode=translate").stdout.count("\n") == 1
