"""The config beside its task's default, and the packages."""

import pytest
from helpers import workdirs

from transformer.tools.pages import settings


def test_what_differs_from_the_default_is_marked(tmp_path):
    changes = {"model__d_model": 64, "train__num_steps": 25_000, "data__directory": "/home/me"}
    this = workdirs.load(workdirs.write(tmp_path / "run", **changes))
    about, differing, everything = settings.section(this).parts
    # The schedule follows d_model.
    assert about == "Keys that differ from configs/translation.py: 3."
    assert differing.rows == [
        ["model.d_model", "64", "512"],
        ["optimizer.schedule.d_model", "64", "512"],
        ["train.num_steps", "25,000", "100,000"],
    ]
    rows = {key: (value, default) for key, value, default in everything.rows}
    assert rows["model.d_ff"] == ("2,048", "the same")
    assert rows["data.directory"] == ("/home/me", '""')
    assert rows["data.pack"] == ("True", "the same")
    assert everything.folded


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("classification", "classify.batch_size"),
        ("image_classification", "model.patch_size"),
        ("language_modelling", "generate.top_k"),
    ],
)
def test_a_task_s_default_is_its_own(tmp_path, task, key):
    this = workdirs.load(workdirs.write(tmp_path / "run", task=task))
    about, differing, everything = settings.section(this).parts
    assert about == f"Keys that differ from configs/{task}.py: 0."
    assert differing.rows == []
    assert [key, "the same"] in [[row[0], row[2]] for row in everything.rows]


def test_a_key_without_a_default_differs(tmp_path):
    """Such as one of another architecture."""
    this = workdirs.load(workdirs.write(tmp_path / "run", model__cell="gru"))
    assert settings.section(this).parts[1].rows == [["model.cell", "gru", ""]]


def test_packages_are_those_of_training_and_evaluation(tmp_path):
    this = workdirs.translated(tmp_path)
    [table] = settings.versions(this).parts
    assert table.rows == [["jax", "0.10.2", "0.11.0"]]
