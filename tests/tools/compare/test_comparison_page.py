"""The page of a comparison, in a browser and as values."""

import pytest
from helpers import browser, evaluated_runs
from helpers.evaluated_runs import REFERENCES, worse
from helpers.workdirs import HOSTILE
from markupsafe import escape

from transformer.tools.compare import comparison, comparison_page
from transformer.tools.pages import evaluated, page, run
from transformer.tools.pages.page import Plot
from transformer.workdir.run_config import read_config


def sections_of(*folders):
    runs = [evaluated.read(run.read(read_config(folder), folder)) for folder in folders]
    configs = [{"key": HOSTILE}] * (len(folders) - 1) + [{"key": 1}]
    compared = comparison.compare(runs, configs, [1, 2], resamples=100, num_items=3)
    return {section.title: section for section in comparison_page.sections(compared)}


@pytest.fixture
def translations(tmp_path):
    lines = [HOSTILE, *worse(REFERENCES, 0.4)[1:]]
    return sections_of(
        evaluated_runs.translations(tmp_path / "first", REFERENCES),
        evaluated_runs.translations(tmp_path / ("second run" * 6), lines),
    )


@pytest.mark.parametrize(
    ("names", "title"), [("ab", "a and b"), ("abc", "a and 2 others"), ("abcd", "a and 3 others")]
)
def test_the_title_names_the_runs(names, title):
    fields = dict.fromkeys(comparison.Comparison._fields)
    compared = comparison.Comparison(**{**fields, "names": list(names)})
    assert comparison_page.title(compared) == title


def plots(section):
    return {part.title: part for part in section.parts if isinstance(part, Plot)}


def test_all_runs_are_in_each_plot(translations, tmp_path):
    names = ["first", "second run" * 6]
    assert list(translations) == [
        *("Scores", "Config", "Curves", "Scores by sentence length", "Where the runs differ most")
    ]
    assert list(plots(translations["Scores"])) == ["BLEU", "chrF"]
    curves = plots(translations["Curves"])
    assert list(curves) == [
        *("BLEU in validation", "Loss in validation", "Loss in training", "Perplexity in training")
    ]
    for plot in curves.values():
        assert plot.table.columns == ["step", *names]
    for plot in plots(translations["Scores by sentence length"]).values():
        assert {row["run"] for row in plot.spec["data"]["values"]} == set(names)
    _, markup = translations["Where the runs differ most"].parts
    for text in (*names, "line 1", HOSTILE):
        assert f">{escape(text)}" in markup.html


def test_a_classifier_has_no_lengths(tmp_path):
    labels = ["a", "b"] * 9
    sections = sections_of(
        evaluated_runs.classifications(tmp_path / "first", labels, labels),
        evaluated_runs.classifications(tmp_path / "second", ["a"] * 18, labels),
    )
    assert list(plots(sections["Scores"])) == ["accuracy", "macro F1"]
    assert "Scores by sentence length" not in sections


def test_equal_runs_have_a_page(tmp_path):
    folder = evaluated_runs.translations(tmp_path / "first", REFERENCES)
    assert "Where the runs differ most" not in sections_of(folder, folder)


@pytest.mark.slow
def test_a_browser_draws_it(translations, tmp_path):
    file = tmp_path / "compare.html"
    file.write_text(page.html(HOSTILE, list(translations.values())))
    assert file.stat().st_size < 3e6
    with browser.chromium() as driver:
        for _ in browser.open_everywhere(driver, file):
            assert driver.title == HOSTILE
