"""Predictions: what is in the matrix, and which errors come first."""

from helpers import workdirs

from transformer.tools.pages.page import Plot, Table
from transformer.tools.report import predictions


def test_the_surest_errors_come_first(tmp_path):
    this = workdirs.classified(tmp_path)
    *_, table = predictions.section(this).parts
    assert table.columns == ["probability", "label", "prediction", "text"]
    assert table.rows == [
        (0.9, "good", "bad", "text 3"),
        (0.7, "odd", "good", "text 4"),
        (0.6, "good", "bad", "text 1"),
    ]
    assert "3 of 3 errors" in table.caption


def test_the_matrix_has_all_pairs_and_their_share(tmp_path):
    _, scores, plot, _ = predictions.section(workdirs.classified(tmp_path)).parts
    assert isinstance(scores, Table)
    assert isinstance(plot, Plot)
    cells = {(x["label"], x["prediction"]): x for x in plot.spec["data"]["values"]}
    assert len(cells) == 9
    assert cells["good", "bad"]["items"] == 2
    assert cells["good", "bad"]["share"] == 2 / 3
    assert cells["bad", "odd"]["items"] == 0
    assert plot.table.rows[1] == ["good", 2, 1, 0]
    assert "3 of 6 items are on the diagonal" in plot.description
    assert "good was taken for bad (2)" in plot.description


def test_of_many_classes_there_is_no_matrix(tmp_path):
    names = [f"class {i}" for i in range(predictions.MOST_CLASSES + 1)]
    parts = predictions.section(workdirs.classified(tmp_path, names)).parts
    assert not any(isinstance(part, Plot) for part in parts)


def test_an_older_result_has_no_probabilities(tmp_path):
    this = workdirs.classified(tmp_path)
    del this.evaluations[-1].outputs["probability"]
    *_, last = predictions.section(this).parts
    assert this.command("evaluate") in last


def test_no_result_and_no_classes(tmp_path):
    this = workdirs.load(workdirs.write(tmp_path / "a", task="classification"))
    assert predictions.section(this) is None
    assert predictions.section(workdirs.load(workdirs.write(tmp_path / "b"))) is None
