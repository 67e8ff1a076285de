"""The mode compare: from folders on the command line to tables, a line of JSON and a page."""

import io
import json
import math

import pytest
from families.language_model import language
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, worse

import launch
from transformer.errors import UserError
from transformer.modes import train
from transformer.workdir.log import read


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    """A function of more arguments: what comparing two runs has printed, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name, share, size in (("a", 0.2, 64), ("b", 0.9, 32)):
        lines = worse(REFERENCES, share)
        evaluated_runs.translations(
            tmp_path / name, lines, model__num_layers=size, train__seed=size
        )

    def compare(*arguments):
        launch.main(
            ["--mode=compare", *(arguments or ("a", "b")), "--config.compare.resamples=100"]
        )
        return capsys.readouterr().out

    return compare


def test_one_line_of_json_and_a_page(compared, tmp_path):
    result = json.loads(compared())
    assert [run["workdir"] for run in result["runs"]] == ["a", "b"]
    assert [run["parameters"] for run in result["runs"]] == [1234567] * 2
    scores = result["runs"][1]["scores"]
    low, high = scores["bleu"]["interval"]
    assert low < scores["bleu"]["value"] < high
    assert scores["bleu"]["p"] < 0.05
    assert scores["loss"] == {"value": 1.5}
    assert result["runs"][1]["lengths"]["all"]["bleu"] == scores["bleu"]
    assert result["config"] == {"model.num_layers": [64, 32], "train.seed": [64, 32]}
    assert result["page"] == "compare.html"
    assert "Scores by sentence length" in (tmp_path / "compare.html").read_text()


def test_what_json_lacks_is_null(compared, tmp_path):
    evaluated_runs.rewrite(tmp_path / "b", lambda x: x | {"loss": math.inf})
    refuse = lambda name: pytest.fail(f"{name} is no JSON")
    result = json.loads(compared(), parse_constant=refuse)
    assert result["runs"][1]["scores"]["loss"] == {"value": None}


def test_files_go_where_they_are_wanted(compared, tmp_path):
    first, page = compared(), (tmp_path / "compare.html").read_bytes()
    compared("a", "--config.compare.page=", "b")
    assert (tmp_path / "compare.html").read_bytes() == page
    elsewhere = "some/where.html"
    again = compared("a", "b", f"--config.compare.page={elsewhere}")
    assert json.loads(again) == json.loads(first) | {"page": elsewhere}  # the same numbers
    assert (tmp_path / elsewhere).read_bytes() == page


def test_a_workdir_does_not_say_where_the_page_goes(compared, tmp_path):
    """It may be a stranger's."""
    file = tmp_path / "a" / "config.json"
    values = json.loads(file.read_text())
    values["compare"] = {"page": str(tmp_path / "elsewhere.html")}
    file.write_text(json.dumps(values))
    compared()
    assert not (tmp_path / "elsewhere.html").exists()


def test_a_terminal_gets_tables(compared, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    compared()
    lines = terminal.getvalue().replace("\u00a0", " ").splitlines()
    assert not any(line.startswith("{") for line in lines)
    (header,) = [line.split() for line in lines if line.startswith("run") and "parameters" in line]
    assert header == ["run", "BLEU", "p", "chrF", "p", "parameters", "step", "weights"]
    assert any(line.startswith("BLEU by words") for line in lines)
    assert ["model.num_layers", "64", "32"] in [line.split() for line in lines]


def test_the_settings_of_the_evaluation_are_compared(compared, tmp_path):
    """Not those of config.json, which --mode=evaluate may have been told to change."""
    evaluated_runs.rewrite(tmp_path / "b", lambda x: x | {"weights": "average"})
    evaluated_runs.rewrite(tmp_path / "b", lambda x: x | {"decode": {"beam_width": 17}})
    result = json.loads(compared())
    assert result["config"] == {
        "decode.beam_width": [4, 17],
        "evaluate.weights": ["best", "average"],
        "model.num_layers": [64, 32],
        "train.seed": [64, 32],
    }
    assert result["scoring"].keys() == {"decode.beam_width", "evaluate.weights"}
    page = (tmp_path / "compare.html").read_text()
    assert 0 < page.index("The runs were not scored alike") < page.index('<th scope="col">p<')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "nothing"], "nothing/config.json does not exist: expected the folder"),
        (["a", "b", "--config.compare.sentences=-1"], "sentences must be at least 0, found -1"),
        (["a", "b", "--config.compare.resamples=99"], "resamples must be at least 100, found 99"),
        (["a", "b", "--config.compare.set=c"], r"set='c': a has been evaluated on test"),
        (["a", "b", "--config.compare.page=a"], r"compare\.page: a is a folder, expected a file"),
        (["a", "b", "--config.compare.pages=c"], r"did you mean --config\.compare\.page\?"),
    ],
)
def test_mistakes_are_one_line(compared, arguments, words):
    with pytest.raises(UserError, match=words) as error:
        launch.main(["--mode=compare", *arguments])
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_trained_language_models_are_compared(tmp_path, monkeypatch, capsys):
    """From training to the comparison, with nothing written by hand."""
    monkeypatch.chdir(tmp_path)
    language.write_text(tmp_path)
    for seed in (0, 1):
        config = language.config(tmp_path, {"train.seed": seed, "evaluate.every": 0})
        train.train(config, tmp_path / f"seed{seed}")
    capsys.readouterr()
    launch.main(["--mode=compare", "seed0", "seed1"])
    compared = json.loads(capsys.readouterr().out)
    assert compared["config"] == {"train.seed": [0, 1]}
    saved = [read(tmp_path / f"seed{seed}", "evaluations.jsonl")[-1] for seed in (0, 1)]
    for run, result in zip(compared["runs"], saved, strict=True):
        bits = run["scores"]["bits_per_character"]
        assert bits["value"] == pytest.approx(result["bits_per_character"], rel=1e-4)
        assert bits["interval"][0] < bits["value"] < bits["interval"][1]
    assert compared["runs"][0]["parameters"] == compared["runs"][1]["parameters"] > 0
