"""A comparison as values: what differs, where, and that the order changes the baseline only."""

import math

import pytest
from helpers import evaluated_runs
from helpers.evaluated_runs import REFERENCES, worse

from transformer.errors import UserError
from transformer.tools.compare import comparison
from transformer.tools.pages import evaluated, run
from transformer.workdir.run_config import read_config


def compare(*folders, configs=None, num_items=5):
    runs = [evaluated.read(run.read(read_config(folder), folder)) for folder in folders]
    configs = configs or [{}] * len(folders)
    sizes = list(range(len(folders)))
    return comparison.compare(runs, configs, sizes, resamples=100, num_items=num_items)


@pytest.fixture
def folders(tmp_path):
    """Three runs, each worse than the one before."""
    return [
        evaluated_runs.translations(tmp_path / name, worse(REFERENCES, share))
        for name, share in (("best", 0.1), ("middle", 0.5), ("worst", 0.9))
    ]


def test_the_order_changes_the_baseline_only(folders):
    there, back = compare(*folders), compare(*folders[::-1])
    for name in ("bleu", "chrf"):
        scores = [x.measures[name].scores for x in (there, back)]
        assert [x.interval for x in scores[0]] == [x.interval for x in scores[1][::-1]]
        assert scores[0][0].p == scores[1][0].p == 1.0
        assert scores[0][2].p == pytest.approx(scores[1][2].p)
        of_runs = [x.interval.value for x in scores[0]]
        assert of_runs == sorted(of_runs, reverse=True)
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


def test_what_differs_in_the_configs(folders):
    configs = [
        {"model.size": 1, "train.seed": 0, "same": (1, 2)},
        {"model.size": 2, "train.seed": 0, "same": (1, 2), "new": False},
        {"model.size": 1, "train.seed": 0, "same": (1, 2)},
    ]
    assert compare(*folders, configs=configs).config == {
        "model.size": [1, 2, 1],
        "new": [None, False, None],
    }


def test_a_classifier(tmp_path):
    labels = ["a", "b"] * 20
    predictions = [labels, ["a"] * 40]
    folders = [
        evaluated_runs.classifications(tmp_path / str(i), x, labels)
        for i, x in enumerate(predictions)
    ]
    compared = compare(*folders, num_items=50)
    assert [x.interval.value for x in compared.measures["accuracy"].scores] == [1.0, 0.5]
    assert compared.measures["accuracy"].scores[1].p == pytest.approx(2 / 2**20)
    assert compared.lengths == {}
    assert [x.number for x in compared.items] == list(range(2, 41, 2))
    assert compared.items[0].scores == [1.0, 0.0]


def test_a_language_model(tmp_path):
    lines = ["abc", "defgh", ""] * 20
    folders = [
        evaluated_runs.texts(tmp_path / str(i), lines, [x * (len(line) + 1) for line in lines])
        for i, x in enumerate((1.0, 2.0))
    ]
    compared = compare(*folders)
    values = [x.interval.value for x in compared.measures["bits_per_character"].scores]
    assert values == pytest.approx([1 / math.log(2), 2 / math.log(2)])
    assert compared.items[0].scores == pytest.approx(values)


def test_a_task_that_keeps_no_outputs(tmp_path):
    folders = [
        evaluated_runs.write(tmp_path / str(i), "test", {}, {}, {"error": float(i)})
        for i in range(2)
    ]
    compared = compare(*folders)
    assert (compared.measures, compared.items, compared.lengths) == ({}, [], {})
    assert compared.scores == {"error": [0.0, 1.0]}
    assert "scores" in comparison.values(compared)["runs"][0]


def test_a_model_that_has_diverged_is_refused(tmp_path):
    folders = [
        evaluated_runs.texts(tmp_path / name, ["a", "b"], nats)
        for name, nats in (("first", [1.0, 2.0]), ("second", [1.0, math.nan]))
    ]
    with pytest.raises(UserError, match=r"bits_per_character of .*second is nan: .* diverged"):
        compare(*folders)


def test_outputs_of_another_result_are_refused(folders):
    (folders[1] / "evaluation" / "test.hypothesis").write_text("x\n" * len(REFERENCES))
    with pytest.raises(
        UserError, match=r"damaged: bleu of the outputs in .*middle/evaluation is 0"
    ):
        compare(*folders)


@pytest.mark.parametrize("score", ["x", None, [1.0], math.inf])
def test_a_saved_score_that_is_no_number_is_refused(folders, score):
    evaluated_runs.rewrite(folders[1], lambda result: result | {"bleu": score})
    with pytest.raises(UserError, match=r"damaged: bleu of the outputs in .*, the result says"):
        compare(*folders)


def test_values_are_those_of_the_comparison(folders):
    compared = compare(*folders)
    values = comparison.values(compared)
    assert [x["workdir"] for x in values["runs"]] == list(map(str, folders))
    assert [x["parameters"] for x in values["runs"]] == [0, 1, 2]
    score, bleu = compared.measures["bleu"].scores[1], values["runs"][1]["scores"]["bleu"]
    assert (bleu["value"], bleu["p"]) == (score.interval.value, score.p)
    assert bleu["interval"] == [score.interval.low, score.interval.high]
    assert values["runs"][0]["scores"]["loss"] == {"value": 1.5}
    assert values["runs"][0]["lengths"].keys() == compared.lengths.keys()
    assert values["checksum"] == compared.runs[0].result["checksum"]


def test_runs_of_the_same_name_are_called_by_their_paths(folders, tmp_path):
    same = evaluated_runs.translations(tmp_path / "elsewhere" / "best", REFERENCES)
    assert compare(*folders).names == ["best", "middle", "worst"]
    assert compare(folders[0], same).names == [str(folders[0]), str(same)]
