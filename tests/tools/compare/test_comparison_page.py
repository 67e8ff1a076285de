"""The page of a comparison, in a browser and as values."""

import pytest
from markupsafe import escape
from tools.compare import evaluated_runs
from tools.compare.evaluated_runs import REFERENCES, worse
from tools.pages import browser
from tools.pages.workdirs import HOSTILE

from transformer.tools.compare import comparison, comparison_page
from transformer.tools.pages import page
from transformer.tools.pages.page import Plot


def compare(*folders):
    runs = [evaluated_runs.read(folder) for folder in folders]
    return comparison.compare(runs, resamples=100, num_items=3)


def sections(compared):
    return {section.title: section for section in comparison_page.sections(compared)}


@pytest.fixture
def translations(tmp_path):
    lines = [HOSTILE, *worse(REFERENCES, 0.4)[1:]]
    folders = [
        evaluated_runs.translations(tmp_path / "first", REFERENCES),
        evaluated_runs.translations(tmp_path / ("second run" * 6), lines, train__init_from=HOSTILE),
    ]
    return compare(*folders)


def plots(section):
    return {part.title: part for part in section.parts if isinstance(part, Plot)}


def test_all_runs_are_in_each_plot(translations):
    names, made = ["first", "second run" * 6], sections(translations)
    titles = "Scores, Config, Curves, Scores by sentence length, Where the runs differ most"
    assert list(made) == titles.split(", ")
    assert list(plots(made["Scores"])) == ["BLEU", "chrF"]
    curves = plots(made["Curves"])
    titles = "BLEU in validation, Loss in validation, Perplexity in training, Loss in training"
    assert list(curves) == titles.split(", ")
    for plot in curves.values():
        assert plot.table.columns == ["step", *names]
    for plot in plots(made["Scores by sentence length"]).values():
        assert {row["run"] for row in plot.spec["data"]["values"]} == set(names)
    _, markup = made["Where the runs differ most"].parts
    for text in (*names, "line 1", HOSTILE):
        assert f">{escape(text)}" in markup.html


def test_what_does_not_apply_is_left_out(tmp_path):
    labels = ["a", "b"] * 9
    first = evaluated_runs.classifications(tmp_path / "first", labels, labels)
    second = evaluated_runs.classifications(tmp_path / "second", ["a"] * 18, labels)
    made = sections(compare(first, second))
    assert list(plots(made["Scores"])) == ["accuracy", "macro F1"]
    assert "Scores by sentence length" not in made
    assert "Where the runs differ most" not in sections(compare(first, first))


@pytest.mark.slow
def test_a_browser_draws_it(translations, tmp_path):
    file = tmp_path / "compare.html"
    file.write_text(page.html(HOSTILE, list(sections(translations).values())))
    assert file.stat().st_size < 3e6
    with browser.chromium() as driver:
        for _ in browser.open_everywhere(driver, file):
            assert driver.title == HOSTILE
