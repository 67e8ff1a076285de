"""A comparison as values: what differs, where, and that the order changes the baseline only."""

import math

import pytest
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, worse

from transformer.errors import UserError
from transformer.tools.compare import comparison


def compare(*folders, num_items=5):
    runs = [evaluated_runs.read(folder) for folder in folders]
    return comparison.compare(runs, resamples=100, num_items=num_items)


@pytest.fixture
def folders(tmp_path):
    """Three runs, each worse than the one before."""
    written = []
    for name, share in (("best", 0.1), ("middle", 0.5), ("worst", 0.9)):
        keys = {"model__d_model": 64 if name == "middle" else 32}
        written.append(
            evaluated_runs.translations(tmp_path / name, worse(REFERENCES, share), **keys)
        )
    return written


def test_the_order_changes_the_baseline_only(folders):
    there, back = compare(*folders), compare(*folders[::-1])
    for name in ("bleu", "chrf"):
        scores = [x.measures[name].scores for x in (there, back)]
        assert [x.interval for x in scores[0]] == [x.interval for x in scores[1][::-1]]
        assert scores[0][0].p == scores[1][0].p == 1.0
        assert scores[0][2].p == pytest.approx(scores[1][2].p)
        values = [x.interval.value for x in scores[0]]
        assert values == sorted(values, reverse=True)
    assert [x.number for x in there.items] == [x.number for x in back.items]
    assert [x.scores for x in there.items] == [x.scores[::-1] for x in back.items]
    for name, bucket in there.lengths.items():
        assert bucket.count == back.lengths[name].count
        intervals = [x.interval for x in bucket.measures["bleu"].scores]
        assert intervals == [x.interval for x in back.lengths[name].measures["bleu"].scores[::-1]]


def test_every_sentence_is_in_a_bucket(folders):
    compared = compare(*folders)
    counts = {name: bucket.count for name, bucket in compared.lengths.items()}
    assert counts.pop("all") == sum(counts.values()) == len(REFERENCES)
    assert compared.lengths["all"].measures == compared.measures


def test_the_lines_that_differ_most(folders):
    compared = compare(*folders, num_items=200)
    spread = [max(x.scores) - min(x.scores) for x in compared.items]
    assert spread == sorted(spread, reverse=True)
    assert min(spread) > 0  # lines that are the same for all are left out
    item = compared.items[0]
    assert item.line["reference"] == REFERENCES[item.number - 1]
    assert item.outputs[2] == worse(REFERENCES, 0.9)[item.number - 1]
    assert len(compare(*folders, num_items=3).items) == 3
    assert compare(folders[0], folders[0], num_items=3).items == []


def test_a_classifier(tmp_path):
    labels = ["a", "b"] * 20
    folders = []
    for i, predictions in enumerate([labels, ["a"] * 40]):
        folders.append(evaluated_runs.classifications(tmp_path / str(i), predictions, labels))
    compared = compare(*folders, num_items=50)
    assert [x.interval.value for x in compared.measures["accuracy"].scores] == [1.0, 0.5]
    assert compared.measures["accuracy"].scores[1].p == pytest.approx(2 / 2**20)
    assert compared.lengths == {}
    assert [x.number for x in compared.items] == list(range(2, 41, 2))
    assert compared.items[0].scores == [1.0, 0.0]


def test_a_language_model(tmp_path):
    lines, folders = ["abc", "defgh", ""] * 20, []
    for rate in (1.0, 2.0):
        nats = [rate * (len(line) + 1) for line in lines]
        folders.append(evaluated_runs.texts(tmp_path / str(rate), lines, nats))
    compared = compare(*folders)
    values = [x.interval.value for x in compared.measures["bits_per_character"].scores]
    assert values == pytest.approx([1 / math.log(2), 2 / math.log(2)])
    assert compared.items[0].scores == pytest.approx(values)


@pytest.mark.parametrize("score", ["error", "bleu"])
def test_a_task_that_keeps_no_outputs(tmp_path, score):
    """Also where it has the score of a kind whose outputs are scored again."""
    folders, dataset = [], {"source": ["a"], "reference": ["b"]}
    columns = {"columns": {"input": "source", "reference": "reference"}}
    for i in range(2):
        folders.append(tmp_path / str(i))
        evaluated_runs.write(folders[i], "test", dataset, dataset, {score: float(i)})
        evaluated_runs.rewrite(folders[i], lambda result: result | columns)
    compared = compare(*folders)
    assert (compared.measures, compared.items, compared.lengths) == ({}, [], {})
    assert compared.scores == {score: [0.0, 1.0]}
    assert comparison.values(compared)["runs"][1]["scores"] == {score: {"value": 1.0}}


def test_a_model_that_has_diverged_is_refused(tmp_path):
    folders = []
    for name, nats in (("first", [1.0, 2.0]), ("second", [1.0, math.nan])):
        folders.append(evaluated_runs.texts(tmp_path / name, ["a", "b"], nats))
    with pytest.raises(UserError, match=r"bits_per_character of .*second is nan: .* diverged"):
        compare(*folders)


def test_outputs_of_another_result_are_refused(folders):
    (folders[1] / "evaluation" / "test.hypothesis").write_text("x\n" * len(REFERENCES))
    with pytest.raises(UserError, match=r"damaged: bleu of .* in .*middle/evaluation is 0"):
        compare(*folders)


@pytest.mark.parametrize("score", ["x", None, [1.0], math.inf])
def test_a_saved_score_that_is_no_number_is_refused(folders, score):
    evaluated_runs.rewrite(folders[1], lambda result: result | {"bleu": score})
    with pytest.raises(UserError, match=r"damaged: bleu of the outputs in .*, the result says"):
        compare(*folders)


def test_runs_of_the_same_name_are_called_by_their_paths(folders, tmp_path):
    same = evaluated_runs.translations(tmp_path / "elsewhere" / "best", REFERENCES)
    assert compare(*folders).names == ["best", "middle", "worst"]
    assert compare(folders[0], same).names == [str(folders[0]), str(same)]
