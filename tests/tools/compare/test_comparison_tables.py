"""The tables of a comparison: every run in its row, its numbers as they are read."""

import pytest

from transformer.tools.compare import comparison_tables as tables
from transformer.tools.compare.comparison import Bucket, Comparison, Item
from transformer.tools.compare.significance import Measure, Score
from transformer.tools.pages.evaluated import Evaluated
from transformer.tools.pages.measures import Interval
from transformer.tools.pages.run import Run


def evaluated(name, score):
    result = {
        score: 1.0,
        "set": "test",
        "checksum": "c0ffee",
        "step": 9,
        "steps": [8, 9],
        "weights": "average",
    }
    return Evaluated(Run(name, None, {}, [], [], [], [], None), result, {"source": ["x"]})


def compared(score="bleu", **changes):
    intervals = (38.712, 37.5, 39.8), (30.0, 28.0, 32.0), (38.0, 36.5, 39.499)
    pairs = zip(intervals, (1.0, 1 / 1001, 0.123), strict=True)
    scores = [Score(Interval(*interval), p) for interval, p in pairs]
    measure = Measure(scores, "how")
    values = Comparison(
        runs=[evaluated(name, score) for name in "abc"],
        names=list("abc"),
        parameters=[1_000_000, 2, 3],
        measures={"bleu": measure},
        scores={"length_ratio": [0.98765, None, 1e-7]},
        unit="words",
        lengths={"-8": Bucket(1234, {"bleu": measure})},
        config={"model.size": [1, None, ""], "seeds": [(1, 2), (1,), False]},
        items=[Item(1, {"source": "x"}, ["y"] * 3, [1.0, 0.0, 0.5])],
    )
    return values._replace(**changes)


def plain(table):
    columns, rows = table
    return [[cell.replace("\u00a0", " ") for cell in row] for row in (columns, *rows)]


def test_scores():
    assert plain(tables.score_table(compared())) == [
        ["run", "BLEU", "p", "parameters", "step", "weights"],
        ["a", "38.71 [37.50, 39.80]", "-", "1,000,000", "8, 9", "average"],
        ["b", "30.00 [28.00, 32.00]", "<0.001", "2", "8, 9", "average"],
        ["c", "38.00 [36.50, 39.50]", "0.123", "3", "8, 9", "average"],
    ]
    scores = [Score(Interval(0.98765, 0.9777, 1.0), 1.0)] * 3
    accuracy = compared(measures={"accuracy": Measure(scores, "")})
    assert plain(tables.score_table(accuracy))[1][1] == "0.9877 [0.9777, 1.0000]"


def test_further_scores():
    assert tables.further_table(compared()) == (
        ["run", "length ratio"],
        [["a", "0.9877"], ["b", "-"], ["c", "1e-07"]],
    )


def test_lengths():
    assert plain(tables.length_table(compared(), "bleu"))[:3] == [
        ["BLEU by words", "-8"],
        ["sentences", "1,234"],
        ["a", "38.71 [37.50, 39.80]"],
    ]


def test_config():
    assert tables.config_table(compared()) == (
        ["config", "a", "b", "c"],
        [["model.size", "1", "-", '""'], ["seeds", "(1, 2)", "(1,)", "False"]],
    )


@pytest.mark.parametrize(
    ("score", "text"),
    [("bleu", "chrF 1.0"), ("macro_f1", "right"), ("bits_per_character", "1.00 bits")],
)
def test_the_score_of_a_line(score, text):
    assert tables.score_of_line(compared(score), 1.0) == text


def test_another_scoring_is_said_of_the_keys_that_scores_depend_on():
    assert tables.scoring(compared()) == ""
    same = {"decode.workers": [1, 2, 1], "evaluate.every": [1, 2, 3], "model.size": [1, 2, 3]}
    assert tables.scoring(compared(config=same)) == ""
    other = {**same, "decode.beam_width": [4, 1, 4], "evaluate.weights": ["best", "best", "latest"]}
    said = tables.scoring(compared(config=other))
    assert said.startswith(
        "The runs were not scored alike (decode.beam_width 4, 1, 4; evaluate.wei"
    )
    assert "model.size" not in said


def test_the_legend_names_the_baseline():
    assert tables.legend(compared()).endswith("from a.")
    assert "no intervals" in tables.legend(compared(measures={}))
