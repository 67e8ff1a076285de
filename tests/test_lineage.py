"""docs/lineage.md: both languages have the same numbers, and what a row runs can be run.

That both say the same, and that files, functions and keys exist, is asked of all pages in
test_docs.py.
"""

import re
from pathlib import Path

import pytest

from transformer.modes import command_line, prepare
from transformer.workdir import config_files, key_tables

PAGES = ENGLISH, KOREAN = "lineage.md", "lineage.ko.md"
TOURS = {ENGLISH: "tour.md", KOREAN: "tour.ko.md"}
DEFAULTS = ("configs/multi30k.py", "configs/multi30k_rnn.py")  # of keys without a config


def read(page):
    return (Path(__file__).resolve().parents[1] / "docs" / page).read_text("utf-8")


def rows(page):
    """Returns the rows of all tables, each a list of cells, without the tables' heads."""
    tables = re.findall(r"\|(?:---\|)+\n((?:\|.*\|\n?)+)", read(page))
    return [line.strip("| ").split(" | ") for table in tables for line in table.splitlines()]


def code(*cells):
    """Returns what stands in backticks, equations, too."""
    return sorted(re.findall(r"`([^`\n]+)`", " ".join(cells)))


def numbers(*cells):
    return sorted(re.findall(r"\d+(?:[.,]\d+)*", " ".join(cells)))


RUN = sorted({row[3] for row in rows(ENGLISH) if len(row) == 4} - {"–"})
CHOICES = [code(choice) for cell in RUN for choice in cell.split("; ")]
SET = [choice for choice in CHOICES if any("=" in x for x in choice)]


def test_both_languages_have_the_same_numbers_in_each_row():
    pairs = zip(rows(ENGLISH), rows(KOREAN), strict=True)
    assert not [row for row, other in pairs if numbers(*row) != numbers(*other)]


def test_both_languages_name_the_same_steps():
    english, korean = re.findall(r"step (\d+)", read(ENGLISH)), r"(\d+)단계"
    assert english
    assert english == re.findall(korean, read(KOREAN))


@pytest.mark.parametrize("page", PAGES)
def test_a_row_leads_to_its_step_or_its_figures(page):
    """A step of the tour that a row runs is in the section to which it leads."""
    for idea, *_, run in (row for row in rows(page) if len(row) > 2):
        [(file, anchor)] = re.findall(r"\]\(([\w.]+)#?([^)]*)\)", idea)
        for name in re.findall(r"-m docs\.tour (\w+)", run) if file == TOURS[page] else ():
            number, _, _ = anchor.partition("-")
            _, _, section = read(file).partition(f"\n## {number}. ")
            assert f"-m docs.tour {name}\n" in section.partition("\n## ")[0], (number, name)


def test_every_config_can_be_loaded():
    for name in set(re.findall(r"`(configs/\w+\.py(?::\w+)?)`", read(ENGLISH))):
        assert config_files.load_config(name)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SET, ids=" ".join)
def test_keys_can_be_set(settings):
    """In the first config of DEFAULTS that has them all."""
    configs = map(config_files.load_config, DEFAULTS)
    keys = {x.partition("=")[0] for x in settings}
    config = next(c for c in configs if keys <= key_tables.flatten(c).keys())
    command_line.set_keys(config, [f"--config.{x}" for x in settings], "train")
    prepare.check(config)
