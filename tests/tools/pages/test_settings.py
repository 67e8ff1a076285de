"""The config beside its task's default, and the packages."""

from tools.pages import workdirs

from transformer.tools.pages import settings


def test_what_differs_from_the_default_is_marked(tmp_path):
    changes = {"model__d_model": 64, "train__num_steps": 25_000, "data__directory": "/home/me"}
    run = workdirs.load(workdirs.write(tmp_path / "run", **changes))
    about, differing, everything = settings.section(run).parts
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


def test_a_task_s_default_is_its_own(tmp_path):
    """A key without a default, such as one of another architecture, differs."""
    folder = workdirs.write(tmp_path / "run", task="classification", model__cell="gru")
    about, differing, everything = settings.section(workdirs.load(folder)).parts
    assert about == "Keys that differ from configs/classification.py: 1."
    assert differing.rows == [["model.cell", "gru", ""]]
    assert ["classify.batch_size", "the same"] in [[row[0], row[2]] for row in everything.rows]
