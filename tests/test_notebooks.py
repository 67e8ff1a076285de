"""The notebooks: they run, both languages have the same code, and the files hold no outputs."""

import ast
import re
from pathlib import Path

import nbclient
import nbformat
import pytest
from helpers import pages, runs

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = {path.name: nbformat.read(path, as_version=4) for path in FOLDER.glob("*.ipynb")}
ENGLISH = sorted(name for name in NOTEBOOKS if not name.endswith(".ko.ipynb"))


def cells(name, kind):
    return [cell.source for cell in NOTEBOOKS[name].cells if cell.cell_type == kind]


def code(name):
    """Returns the code of each cell, without comments, and without the language of pictures."""
    trees = [ast.unparse(ast.parse(source)) for source in cells(name, "code")]
    return [re.sub("^LANGUAGE = .*$", "", tree, flags=re.MULTILINE) for tree in trees]


def test_there_are_three_in_two_languages():
    assert len(ENGLISH) == 3
    assert {*NOTEBOOKS} == {*ENGLISH, *(name.replace(".ipynb", ".ko.ipynb") for name in ENGLISH)}


@pytest.mark.parametrize("name", ENGLISH)
def test_both_languages_have_the_same_code(name):
    korean = name.replace(".ipynb", ".ko.ipynb")
    assert code(name) == code(korean)
    kinds = [[cell.cell_type for cell in NOTEBOOKS[x].cells] for x in (name, korean)]
    assert kinds[0] == kinds[1]
    assert all(re.search("[가-힣]{2}", text) for text in cells(korean, "markdown"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_file_is_in_its_normal_form(name):
    """What a change of a notebook shows is what was changed."""
    notebook = NOTEBOOKS[name]
    nbformat.validate(notebook)
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert not cell.metadata
        assert cell.cell_type != "code" or (cell.outputs, cell.execution_count) == ([], None)
    assert cells(name, "code")[0] == cells(ENGLISH[0], "code")[0]  # which installs


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_a_notebook_links_to_exists(name):
    text = "\n\n".join(cells(name, "markdown"))
    assert not pages.missing_links(text, FOLDER)
    without_links = re.sub(r"\]\([^)]*\)", "]", text)
    assert not pages.missing_files(without_links) | pages.wrong_keys(without_links)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One device, few steps, and folders that are gone after the tests; they share a corpus."""
    home = tmp_path_factory.mktemp("notebooks")
    folders = {"HOME": str(home), "NOTEBOOK_RUNS": str(home / "runs")}
    return {**runs.ONE_DEVICE, **folders, "NOTEBOOK_STEPS": "2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [x if "nothing" in x else pytest.param(x, marks=pytest.mark.nightly) for x in ENGLISH]
)
def test_a_notebook_runs(name, environment):
    """Its asserts hold, in fewer steps than it has for a reader; a picture is drawn."""
    resources = {"metadata": {"path": str(FOLDER)}}
    client = nbclient.NotebookClient(NOTEBOOKS[name], timeout=300, resources=resources)
    client.execute(env=environment)
    outputs = [x.get("data", {}) for cell in client.nb.cells for x in cell.get("outputs", [])]
    assert any("image/svg+xml" in data for data in outputs)
