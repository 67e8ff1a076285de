"""The files, functions and tests that pages of docs/ name exist; one-batch.md is what it shows."""

import ast
import functools
import pathlib
import re

import pytest

from docs import one_batch

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = r"`([\w/]+\.py)`"
FUNCTIONS = rf"{FILE}\s+\(([^)]*)\)"  # `file.py` (`f`, `g`)
TESTS = rf"{FILE}(?: \(s\))?: ((?:(?:, )?`test_\w+`(?: \(s\))?)+)"  # `test_file.py`: `test_a` (s)


def path_of(name):
    """Returns the path of a file named from ROOT, transformer/ or tests/; None if there is none."""
    paths = (ROOT / folder / name for folder in ("", "transformer", "tests"))
    return next(filter(pathlib.Path.is_file, paths), None)


@functools.cache
def defined(path):
    """Returns the names of a file's functions, classes and variables."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return stored | {x.name for x in nodes if isinstance(x, ast.FunctionDef | ast.ClassDef)}


def missing(text):
    """Returns what a page names and what does not exist."""
    absent = {name for name in re.findall(FILE, text) if not path_of(name)}
    tests = set().union(*(defined(path) for path in (ROOT / "tests").rglob("test_*.py")))
    absent |= set(re.findall(r"`(test_\w+)`", text)) - tests
    for name, content in re.findall(FUNCTIONS, text) + re.findall(TESTS, text):
        if path := path_of(name):
            names = set(re.findall(r"`(\w+)`", content))
            absent |= {f"{name}: {absentee}" for absentee in names - defined(path)}
    return absent


@pytest.mark.parametrize(
    "page", ["internals.md", "reliability.md", "tour.md", "tour.ko.md", "one-batch.md"]
)
def test_what_a_page_names_exists(page):
    assert not missing((ROOT / "docs" / page).read_text())


def test_the_way_of_a_batch_in_the_readme_exists():
    readme = (ROOT / "README.md").read_text()
    start, end = map(readme.index, ("How one batch travels", "The packages in that order"))
    assert len(re.findall(FUNCTIONS, readme[start:end])) >= 14
    assert not missing(readme[start:end])


def test_what_does_not_exist_is_missing():
    text = "`storage/lock.py` (`locked`, `OSError`), `storage/gone.py` | `test_gone`, "
    text += "`test_rooms.py` (s): `test_imports_go_one_way` (s), `test_what_a_page_names_exists`"
    assert missing(text) == {
        *("storage/lock.py: OSError", "storage/gone.py", "test_gone"),
        "test_rooms.py: test_what_a_page_names_exists",
    }


NUMBER = re.compile(r"-?\d+\.\d+")


def differs(page, kept):
    """Whether two pages differ, in more than the last digits of a fraction."""
    if NUMBER.sub("", page) != NUMBER.sub("", kept):
        return True
    numbers = (list(map(float, NUMBER.findall(text))) for text in (page, kept))
    return list(next(numbers)) != pytest.approx(next(numbers), rel=2e-3, abs=2e-4)


def test_one_batch_is_what_its_page_shows(tmp_path):
    kept = one_batch.PAGE.read_text()
    page = one_batch.filled(kept, tmp_path)
    assert not differs(page, kept), "run python -m docs.one_batch"
    assert differs(page.replace("0.0441", "0.0431"), kept)
    assert differs(page.replace("Haus ▁ist", "Haus ▁is"), kept)
