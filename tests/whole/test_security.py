"""Nothing that is read is run, and no name from outside leads out of the folders written to."""

import ast
import json
import pathlib
import shutil
import sys

import flax.traverse_util
import jax
import numpy as np
import pytest
from helpers.checkpoints import checkpoints_of

import launch
from configs import wmt_base
from transformer import registry
from transformer.checkpoints import weights
from transformer.errors import UserError
from transformer.modes import command_line
from transformer.runtime import checksums
from transformer.tasks import translation
from transformer.workdir import key_tables, results, saved_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / name for name in ("transformer", "configs", "benchmarks")]
FILES = [ROOT / "launch.py", *(path for folder in FOLDERS for path in folder.rglob("*.py"))]

# What runs what it reads: modules, functions, arguments.
DANGERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
DANGERS |= {"yaml", "eval", "exec", "__import__", "system", "popen", "exec_module", "load_module"}
DANGERS |= {"unpickle", "read_pickle", "to_pickle", "allow_pickle", "shell"}


def dangers(source):
    """The names in a source by which something read could be run."""
    fields = ("id", "attr", "arg", "name", "module")
    nodes = ast.walk(ast.parse(source))
    names = [str(getattr(node, field, "")) for node in nodes for field in fields]
    return DANGERS & {part for name in names for part in name.split(".")}


def test_nothing_read_is_run_but_the_config_that_is_named():
    """The --config file is Python, and is run: that is what it is for."""
    assert len(FILES) > 40
    found = {str(path.relative_to(ROOT)): dangers(path.read_text()) for path in FILES}
    assert {name: names for name, names in found.items() if names} == {
        "transformer/workdir/config_files.py": {"exec_module"}
    }


# A danger a line, each in another form.
DANGEROUS = """
import pickle as p
from marshal import load
import yaml
exec(x)
np.load(x, allow_pickle=True)
subprocess.run(x, shell=True)
os.popen(x)
from os import system
value = lambda: eval(x)
"""


def test_dangers_are_seen():
    seen = {"pickle", "marshal", "yaml", "exec", "allow_pickle", "shell", "popen", "system", "eval"}
    assert dangers(DANGEROUS) == seen
    assert not dangers("import re\nre.compile(x)\njax.eval_shape(f)\nos.execv(a, b)")


@pytest.fixture(scope="module")
def seen():
    """What this process has opened, listed, made, renamed or unpickled: (event, first argument)."""
    events, watching = [], [True]
    watched = ("open", "os.mkdir", "os.listdir", "os.scandir", "os.rename", "pickle.find_class")

    def note(event, arguments):
        if watching and event in watched:
            events.append((event, str(arguments[0])))

    sys.addaudithook(note)  # for the rest of the process
    yield events
    watching.clear()


def test_a_checkpoint_is_read_without_unpickling(tmp_path, seen):
    """Wherever in its folders an array with a pickle lies."""
    np.save(tmp_path / "pickled.npy", np.array([pathlib.Path()], dtype=object))
    values = {"x": jax.numpy.arange(3.0)}
    saved = checkpoints_of(tmp_path / "run")
    saved.save(1, values, {"count": np.zeros(1)})
    saved.close()
    for folder in [tmp_path / "run", *(tmp_path / "run").rglob("*/")]:
        for name in ("x.npy", "parameters.npz", "arrays.pickle"):
            shutil.copy(tmp_path / "pickled.npy", folder / name)
    step = tmp_path / "run" / "checkpoints" / "1"
    forged = checksums.checksums_of(step, checksums.read(step)["about"])
    (step / checksums.NAME).write_bytes(forged)  # otherwise a file without a checksum is refused
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    expected = {"x": jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding)}
    seen.clear()
    found, _ = weights.load(tmp_path / "run", expected, {}, weights="latest", average_last=1)
    assert "pickle.find_class" not in dict(seen)
    np.testing.assert_array_equal(found["x"], values["x"])
    np.load(tmp_path / "pickled.npy", allow_pickle=True)
    assert "pickle.find_class" in dict(seen)  # it would have been seen


# What a stranger's workdir says.


MACHINE = {
    "compilation_cache": "{}/cache",
    "data.data_dir": "{}/data",
    "evaluate.ensemble": "{}/member",
    "parallel.coordinator": "{}:1234",
    "parallel.num_processes": 2,
    "parallel.mesh": (2, 1, 1),
    "vocabulary.model": "{}/pieces.model",
    "train.init_from": "{}/run",
    "decode.terms": "{}/terms.tsv",
}

FROM_WORKDIR = ("evaluate", "verify", "translate", "score", "align")


@pytest.mark.parametrize("mode", FROM_WORKDIR)
def test_a_workdir_says_nothing_of_this_machine(mode, tmp_path, seen, monkeypatch):
    """No folder that its config.json names is made or read; the command line may name one."""
    outside = tmp_path / "outside"
    doctored = {key: x.format(outside) if isinstance(x, str) else x for key, x in MACHINE.items()}
    defaults = key_tables.flatten(wmt_base.get_config())
    content = flax.traverse_util.unflatten_dict(defaults | doctored, sep=".")
    (tmp_path / "config.json").write_text(json.dumps(content))
    began = []
    code = registry.MODES[mode].code.replace(":", ".")
    monkeypatch.setattr(code, lambda config, _: began.append(config))
    seen.clear()
    command = [f"--mode={mode}", f"--workdir={tmp_path}"]
    launch.main(command)
    assert ("open", str(tmp_path / "config.json")) in seen
    assert not [path for _, path in seen if str(outside) in path]
    found = key_tables.flatten(began[0])
    assert {key: found.get(key) for key in doctored} == {key: defaults.get(key) for key in doctored}
    given = command_line.parse(
        [*command, "--config.data.data_dir=here", "--config.evaluate.ensemble=it"]
    )
    assert (given[2].data.data_dir, given[2].evaluate.ensemble) == ("here", "it")


def test_an_ensembles_member_says_nothing_of_this_machine(reversal_run, tmp_path):
    """Its own members, for instance."""
    member = shutil.copytree(reversal_run, tmp_path / "member")
    content = json.loads((member / "config.json").read_text())
    content["evaluate"]["ensemble"] = str(tmp_path / "outside")
    del content["train"]["save_every"]  # it may also be older
    (member / "config.json").write_text(json.dumps(content))
    config = saved_config.read_config(reversal_run)
    config.evaluate.ensemble = str(member)
    assert translation.load(config, reversal_run).steps == [7, 7]


def test_where_text_is_read_is_logged(caplog):
    """A stranger's config.json names it."""
    caplog.set_level("INFO")
    config = wmt_base.get_config()
    config.data.update(directory="/some/where", test="one,two")
    config.data.corpus = "parallel_text"
    with pytest.raises(UserError):
        translation.evaluator(config, None, None, "test")
    assert "'one,two'" in caplog.text
    assert "/some/where" in caplog.text
    assert config.data.data_dir in caplog.text


CONFIG = wmt_base.get_config().to_json()
LINKS = ["config.json", "metrics.jsonl", "evaluation", "profile", "mine"]
LINKS += ["evaluation/test.source", "profile/plugins/x"]
MODES = [x for x in ("train", "evaluate", "report", "compare") if x in registry.MODES]


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("mode", [*MODES, "load"])
def test_no_link_makes_a_mode_read_or_write_outside_the_workdir(name, mode, tmp_path):
    """A page would show what is there, to everyone who gets it. But folders of params may be links,
    such as to a larger disk."""
    outside, workdir, other = tmp_path / "outside", tmp_path / "run", tmp_path / "other"
    for folder in (workdir, other):
        folder.mkdir()
        (folder / "config.json").write_text(CONFIG)
    for folder in ("checkpoints", "params", "best", "vocabulary"):
        (workdir / folder).symlink_to(tmp_path / folder)
    outside.write_text(CONFIG)
    place = workdir / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)

    def begin():
        if mode == "load":  # as an ensemble's member is, and the other folders of a comparison
            saved_config.read_config(workdir)
        elif mode == "compare":
            command_line.parse(["--mode=compare", str(workdir), str(other)])
        else:
            config = ["--config=configs/wmt_base.py"] if mode == "train" else []
            command_line.parse([f"--mode={mode}", f"--workdir={workdir}", *config])

    for missing in (False, True):
        place.symlink_to(outside)
        with pytest.raises(UserError, match=f"{name} is a link that leads out of {workdir}"):
            begin()
        place.unlink()
        outside.unlink(missing_ok=missing)
    (workdir / "within").write_text(CONFIG)
    place.symlink_to(workdir / "within")
    begin()


SPLITS = [
    *("../../x", "../x", "..", "../..", "x/../../y", "a/b/c", "", ".", "~/x"),
    *("/tmp/a.de,/tmp/b.en", "../a.de,../../b.en", "a.de,..", "a.de, ../../ b.en", "x\\..\\y"),
]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("is_files", [False, True])
def test_no_split_makes_evaluation_write_outside_its_folder(tmp_path, split, is_files):
    workdir = tmp_path / "one" / "two" / "run"
    workdir.mkdir(parents=True)
    name = results.name_of(split, split.split(",") if is_files else [])
    sentences = {"source": ["a"], "hypothesis": ["b"], "reference": ["c"]}
    results.keep(workdir, {"set": name, "bleu": 0.0}, sentences)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert len(written) == 5
    written.remove(workdir / "evaluations.jsonl")
    assert {path.parent for path in written} == {workdir / "evaluation"}
