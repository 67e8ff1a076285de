"""The tables of a comparison: every run in its row, its numbers as they are read."""

from transformer.tools.compare import comparison_page as tables
from transformer.tools.compare.comparison import Bucket, Comparison
from transformer.tools.compare.evaluated import Evaluated
from transformer.tools.compare.kinds import Measure, Score
from transformer.tools.pages.measures import Interval
from transformer.tools.pages.run import Run


def evaluated(name):
    result = {"set": "test", "checksum": "c0ffee", "steps": [8, 9], "weights": "average"}
    return Evaluated(Run(name, None, {}, [], [], [], [], None), result, {})


def compared(**changes):
    intervals = (38.712, 37.5, 39.8), (30.0, 28.0, 32.0), (38.0, 36.5, 39.499)
    pairs = zip(intervals, (1.0, 1 / 1001, 0.123), strict=True)
    scores = [Score(Interval(*interval), p) for interval, p in pairs]
    measure = Measure(scores, "how")
    values = Comparison(
        runs=[evaluated(name) for name in "abc"],
        names=list("abc"),
        kind=None,
        parameters=[1_000_000, 2, 3],
        measures={"bleu": measure},
        scores={"length_ratio": [0.98765, None, 1e-7]},
        unit="words",
        lengths={"-8": Bucket(1234, {"bleu": measure})},
        config={"model.size": [1, None, ""], "seeds": [(1, 2), (1,), False]},
        items=[],
    )
    return values._replace(**changes)


def plain(table):
    return [[cell.replace("\u00a0", " ") for cell in row] for row in (table.columns, *table.rows)]


def test_each_run_has_a_row_of_scores():
    assert plain(tables.score_table(compared())) == [
        ["run", "BLEU", "p", "parameters", "step", "weights"],
        ["a", "38.71 [37.50, 39.80]", "-", "1,000,000", "8, 9", "average"],
        ["b", "30.00 [28.00, 32.00]", "<0.001", "2", "8, 9", "average"],
        ["c", "38.00 [36.50, 39.50]", "0.123", "3", "8, 9", "average"],
    ]
    further = [["run", "length ratio"], ["a", "0.9877"], ["b", "-"], ["c", "1e-07"]]
    assert plain(tables.further_table(compared())) == further
    assert plain(tables.config_table(compared())) == [
        ["config", "a", "b", "c"],
        ["model.size", "1", "-", '""'],
        ["seeds", "(1, 2)", "(1,)", "False"],
    ]


def test_another_scoring_is_said_of_the_keys_that_scores_depend_on():
    same = {"decode.workers": [1, 2, 1], "evaluate.every": [1, 2, 3], "model.size": [1, 2, 3]}
    about = tables.about(compared(config=same))
    assert about[0] == "Test set test (checksum c0ffee)."
    assert about[1].endswith("from a.")
    differing = {"decode.beam_width": [4, 1, 4], "evaluate.weights": ["best", "best", "latest"]}
    _, alike, last = tables.about(compared(config=same | differing, measures={}))
    keys = "decode.beam_width 4, 1, 4; evaluate.weights best, best, latest"
    assert alike.startswith(f"The runs were not scored alike ({keys}): ")
    assert "no intervals" in last
