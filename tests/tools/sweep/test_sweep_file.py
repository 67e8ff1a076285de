"""The file of a sweep: rows and seeds become command lines, and a mistake is one line."""

import inspect
import re
import textwrap
import tomllib
from pathlib import Path

import jax
import pytest
from tools.sweep.sweeps import BASE, read

from configs import multi30k_boxes
from transformer import registry
from transformer.errors import UserError
from transformer.models import boxes
from transformer.modes import command_line
from transformer.tasks.task import abstract_params, load_task
from transformer.tools.sweep import sweep_file

ROOT = Path(__file__).resolve().parents[3]
TWO = (Path(__file__).parent / "two_rows.toml").read_text()


def test_rows_become_command_lines(tmp_path):
    base, rotary = read(tmp_path, TWO, "--config.model.tied_embeddings=all")
    assert [run.name for run in [*base.runs, *rotary.runs]] == [
        *("base-seed0", "rotary-seed3", "rotary-seed1")
    ]
    assert rotary.overrides == {
        **{"model.positions": "rotary", "model.d_model": 128, "parallel.mesh": [0, 1, 1]},
        "model.tied_embeddings": "none",
    }
    run = rotary.runs[1]
    assert (run.seed, run.workdir) == (1, tmp_path / "sweep" / "rotary-seed1")
    assert run.log == tmp_path / "sweep" / "rotary-seed1.log"
    mode, workdir, config = command_line.parse(run.arguments)
    assert (mode, workdir, config.to_dict()) == ("train", run.workdir, run.config.to_dict())
    assert (config.train.seed, config.train.num_steps, config.parallel.mesh) == (1, 20, (0, 1, 1))
    # The row's before the file's, the command line's before both.
    assert (config.model.d_model, config.model.tied_embeddings) == (128, "all")
    assert (base.runs[0].config.model.d_model, config.optimizer.schedule.factor) == (64, 2.0)


FILES = sorted(ROOT.glob("configs/sweeps/*.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_sweeps_of_the_project_can_be_trained(file, tmp_path, monkeypatch):
    """From any folder, by the command in its comment; where it says so, models are of one size."""
    monkeypatch.chdir(tmp_path)
    text, key = file.read_text(), "--config.data.directory="
    assert f"--mode=sweep configs/sweeps/{file.name}" in text
    rows = sweep_file.read(file.relative_to(ROOT), tmp_path, [f"{key}x"] if key in text else [])
    form = r"(?:but (\w+) and (\w+) )?have as many parameters as the first within ([\d.]+) %"
    if said := re.search(form, text.replace("\n# ", " ")):
        first, *counts = [(x.name, count(x.runs[0].config)) for x in rows]
        off = {x: abs(size / first[1] - 1) for x, size in counts if x not in said.groups()}
        assert max(off.values()) < float(said[3]) / 100, off


def count(config):
    """Returns the number of a model's parameters."""
    task = load_task(config.task)
    model = task.model(config, task.sizes(config, None))
    return sum(x.size for x in jax.tree.leaves(abstract_params(model, task.example(config, 1))))


def test_a_row_may_have_another_config_and_a_variant(tmp_path):
    row = '[rows.a]\nconfig = "configs/wmt_base.py:t2t_v3"\nseeds = [5]\n'
    [row] = read(tmp_path, row)
    assert row.config == "configs/wmt_base.py:t2t_v3"
    assert row.runs[0].config.optimizer.schedule.warmup_steps == 8000
    assert row.runs[0].config.train.num_steps == 20


def test_the_example_of_the_docstring_is_one(tmp_path):
    _, _, example = inspect.getdoc(sweep_file).partition("\n\n")
    example = example.replace("configs/multi30k.py", "configs/parallel_text.py")
    base, rotary = read(tmp_path, "", base=textwrap.dedent(example))
    assert [len(base.runs), len(rotary.runs)] == [3, 1]
    assert rotary.runs[0].config.model.positions == "rotary"


def test_the_sweep_of_boxes_has_each_part():
    sweep = tomllib.loads((ROOT / "configs" / "sweeps" / "boxes.toml").read_text())
    models = [row["model"] for row in sweep["rows"].values() if "model" in row]
    for box, parts in registry.PARTS.items():
        named = {x.name for x in boxes.parse(box, multi30k_boxes.get_config().model[box])}
        named |= {x.name for model in models if box in model for x in boxes.parse(box, model[box])}
        assert parts.keys() - named <= {"gelu_tanh"}  # all but an approximation of another


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rows.a]\nmodel.d_modl = 3", r"some\.toml: row a: --config\.model\.d_modl=3: .*d_model"),
        ("[rows.a]\nmodel.d_model = 1.5", r"row a: --config\.model\.d_model=1\.5: .* an integer"),
        ("[rows.a]\nmodel.num_heads = 7", "row a: .*num_heads"),  # what the task checks
        ("[rows.a]\n[rows.b]\ntrain.seed = 3", "row b: .*train.seed=3: seeds are set by `seeds`"),
        ("[rows.a]\nseeds = 3", "row a: seeds must be an array, found 3"),
        ("[rows.a]\nseeds = [1, 1]", r"row a: seeds must be different integers.* \[1, 1\]"),
        ("[rows.a]\nseeds = [-1]", r"found \[-1\]"),
        ("[rows.a]\nseeds = [true]", r"found \[True\]"),
        ("[rows.a]\nseeds = []", r"found \[\]"),
        ("[rows.a]\ntrain.num_steps = 2026-01-01", "train.num_steps must be a string, .* 2026"),
        ('[rows.a]\nconfig = "configs/multi30.py"', "row a: --config=configs/multi30.py must be"),
        ('[rows.a]\nconfig = "configs/parallel_text.py:x"', "row a: .* no variants"),
        ("[rows.a]\nconfig = 3", "row a: config must be a string, found 3"),
        ('[rows."../a"]', r"row \.\./a: its name must be"),
        ("rows.a.b = 3\nrows = 3", "is not TOML: "),
        ("[rows]\na = 3", r"row a: must be a table, such as \[rows\.a\], found 3"),
        ("", r"has no rows, expected one such as \[rows\.base\]"),
        ("[row.a]", "there is no key row, .*; did you mean rows?"),
    ],
)
def test_mistakes_are_one_line(tmp_path, text, words):
    base = BASE if text.startswith("[") or not text else BASE.partition("[")[0]
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        read(tmp_path, text, base=base)


def test_rows_of_different_tasks_have_no_table(tmp_path, toy_config):
    for name in ("translation", "parallel_text"):
        (toy_config.parent / f"{name}.py").symlink_to(ROOT / "configs" / f"{name}.py")
    rows = f'[rows.a]\nmodel.num_layers = 1\n[rows.b]\nconfig = "{toy_config}"\n'
    with pytest.raises(UserError, match="the same score, found a by bleu, b by error"):
        read(tmp_path, rows, base=BASE.partition("[")[0])


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"--mode=sweep gone\.toml: No such file"):
        sweep_file.read(Path("gone.toml"), tmp_path)
    with pytest.raises(UserError, match="row a: neither it nor the file has a config"):
        read(tmp_path, "[rows.a]", base="")
    (tmp_path / "some.toml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="is not TOML"):
        sweep_file.read(tmp_path / "some.toml", tmp_path)
