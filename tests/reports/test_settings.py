"""The config beside the paper's, and the packages."""

from helpers import workdirs

from transformer.reports import settings


def test_what_differs_from_the_paper_is_marked(tmp_path):
    changes = {"model__d_model": 64, "train__num_steps": 25_000, "data__directory": "/home/me"}
    this = workdirs.load(workdirs.write(tmp_path / "run", **changes))
    about, differing, everything = settings.section(this).parts
    assert about.startswith("3 keys differ")  # the schedule follows d_model
    assert differing.rows == [
        ["model.d_model", "64", "512"],
        ["optimizer.schedule.d_model", "64", "512"],
        ["train.num_steps", "25,000", "100,000"],
    ]
    rows = {key: (value, paper) for key, value, paper in everything.rows}
    assert rows["model.d_ff"] == ("2,048", "the same")
    assert rows["data.directory"] == ("/home/me", '""')
    assert rows["data.pack"] == ("True", "the same")
    assert everything.folded


def test_a_key_of_another_task_is_not_the_papers(tmp_path):
    this = workdirs.load(workdirs.write(tmp_path / "run", task="classification"))
    rows = {key: paper for key, _, paper in settings.section(this).parts[2].rows}
    assert rows["classify.batch_size"] == ""
    assert rows["model.norm"] == "post"


def test_packages_are_those_of_training_and_evaluation(tmp_path):
    this = workdirs.translated(tmp_path)
    [table] = settings.versions(this).parts
    assert table.rows == [["jax", "0.10.2", "0.11.0"]]
