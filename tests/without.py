"""Deletes families and tools, and what cannot be without them; `make test` passes with the rest.

    python tests/without.py families tools      # leaves the core
    python tests/without.py families/images

What needs a deleted folder goes with it: without families/labels there are no classifiers. So do
its entries in registry.py, its configs, tests and benchmarks, and what describes the whole project:
the tour, the notebooks, the page on where its ideas come from, and the test that README.md and
docs/ are true. README.md, docs/, requirements.txt and docstrings that name what is gone are left to
you; git restores what was committed.
"""

import argparse
import ast
import pathlib
import re
import shutil
import sys
from collections.abc import Iterable

NEEDED_BY = {
    "families/labels": ["families/texts", "families/images"],
    "families/sampling": ["families/language_model"],
    "families/language_model": ["families/memory"],  # the model of its config
    "families/scoring": ["tools/confidence"],
    "families/parts": [f"families/{x}" for x in ("texts", "images", "language_model", "recurrent")],
    "tools/pages": [
        f"tools/{x}"
        for x in ("report", "compare", "confidence", "convert", "audit", "serve", "sweep")
    ],
}
IMPORTERS = ("configs", "tests", "benchmarks")
OF_THE_WHOLE = (
    "docs/tour.md",
    "docs/tour.ko.md",
    "docs/lineage.md",
    "docs/lineage.ko.md",
    "tests/test_tour.py",
    "tests/test_diagrams.py",
    "tests/test_lineage.py",
    "tests/test_notebooks.py",
    "tests/test_docs.py",
    "tests/test_fidelity.py",
    "tests/test_site.py",
    "tests/helpers/pages.py",
)


def without(root: pathlib.Path, names: list[str]) -> None:
    """Deletes folders of transformer/, such as 'tools' or 'tools/plan', in the tree `root`."""
    folders = set(names)
    while more := {x for name in folders for x in NEEDED_BY.get(name, [])} - folders:
        folders |= more
    folders = {x for x in folders if (root / "transformer" / x).exists()}
    for folder in folders:
        shutil.rmtree(root / "transformer" / folder)
        shutil.rmtree(root / "tests" / folder, ignore_errors=True)
    for folder in ("diagrams", "notebooks", "tour"):
        shutil.rmtree(root / "docs" / folder, ignore_errors=True)
    for file in OF_THE_WHOLE:
        (root / file).unlink(missing_ok=True)
    modules = tuple(f"{folder.replace('/', '.')}." for folder in folders)
    packages = tuple(f"transformer.{module}" for module in modules)
    entries = delete_entries(root / "transformer" / "registry.py", packages)
    if "tuned" in entries:
        run = root / "configs" / "_run.py"
        run.write_text(run.read_text().replace('"kernels": ["tuned"', '"kernels": ["plain"'))
    of_entry = {"sample": "_sampling", "terminology": "_rules", "typos": "_views"}
    of_entry |= {"calibrate": "_confidence"}
    for entry, keys in of_entry.items():
        if entry in entries:
            (root / "configs" / f"{keys}.py").unlink()
            task = root / "configs" / "translation.py"
            text = task.read_text().replace(f" {keys},", "").replace(f"    **{keys}.KEYS,\n", "")
            task.write_text(text)
    configs = delete_configs(root / "configs", entries)
    delete_importers(root, (*packages, *modules, *configs))  # tests/families is `families` to tests
    delete_sweeps(root, entries)


def delete_entries(registry: pathlib.Path, packages: tuple[str, ...]) -> set[str]:
    """Deletes the entries whose code is in these packages; returns their names."""
    text = registry.read_text()
    lines, names = text.splitlines(keepends=True), set()
    # All tables, those in PARTS, too, in the order of their lines.
    tables = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Dict)]
    tables.sort(key=lambda x: x.lineno)
    for table in reversed(tables):
        for key, value in reversed([*zip(table.keys, table.values, strict=True)]):
            code = value.args[0] if isinstance(value, ast.Call) else value
            if isinstance(code, ast.Constant) and code.value.startswith(packages):
                names.add(key.value)
                del lines[key.lineno - 1 : value.end_lineno]
    registry.write_text("".join(lines).replace("{\n}", "{}"))
    return names


def delete_configs(folder: pathlib.Path, names: set[str]) -> list[str]:
    """Deletes the configs of tasks, models, parts and corpora by these names; returns their
    modules."""
    keys = "task|architecture|data.corpus|model.mixer|model.score|model.positions"
    keys = f"{keys}|model.feed_forward|model.norm|model.residual"
    named = re.compile(rf'(?:config\.|")(?:{keys})"?(?: =|:) "(\w+)')
    gone = [file for file in folder.glob("[!_]*.py") if names & {*named.findall(file.read_text())}]
    for file in gone:
        file.unlink()
    return [f"configs.{file.stem}." for file in gone]


def delete_sweeps(root: pathlib.Path, names: set[str]) -> None:
    """Deletes the sweeps whose parts have these names, or whose configs have gone; without the
    sweep, all of them."""
    for file in root.glob("configs/sweeps/*.toml"):
        text = file.read_text()
        parts = {*re.findall(r'model\.\w+ = "(\w+)', text)}
        configs = [root / path for path in re.findall(r'"(configs/\w+\.py)', text)]
        if {"sweep", *parts} & names or not all(path.exists() for path in configs):
            file.unlink()


def delete_importers(root: pathlib.Path, gone: tuple[str, ...]) -> None:
    """Deletes the configs and tests that import modules of `gone` at their head, and benchmarks
    that do so anywhere.

    What imports one of these goes, too.
    """
    files = [x for x in root.rglob("*.py") if x.relative_to(root).parts[0] in IMPORTERS]
    imported = {}
    for file in files:
        tree = ast.parse(file.read_text())
        is_benchmark = file.relative_to(root).parts[0] == "benchmarks"
        imported[file] = imported_names(ast.walk(tree) if is_benchmark else tree.body)
    while gone:
        deleted = [
            file for file, names in imported.items() if any(x.startswith(gone) for x in names)
        ]
        for file in deleted:
            file.unlink()
            del imported[file]
        paths = [file.relative_to(root).with_suffix("") for file in deleted]
        gone = tuple(f"{'.'.join(path.parts)}.".removeprefix("tests.") for path in paths)


def imported_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Returns the modules and attributes that statements import, each with a dot at its end."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [f"{x.name}." for x in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{x.name}." for x in node.names]
    return names


def main() -> None:
    """Deletes the folders that the command line names, if there are all of them."""
    root = pathlib.Path(__file__).resolve().parents[1]
    library = root / "transformer"
    files = library.glob("families/**/__init__.py"), library.glob("tools/**/__init__.py")
    folders = sorted({str(x.parent.relative_to(library)) for paths in files for x in paths})
    if not folders:
        sys.exit("without.py: there is no family and no tool left to delete")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    name = lambda text: text.removeprefix("transformer/").strip("/")
    parser.add_argument("folders", nargs="+", type=name, choices=folders, metavar="FOLDER")
    names = parser.parse_args().folders
    without(root, names)
    print(f"{', '.join(names)}: deleted. Left to edit: README.md, docs/ and requirements.txt.")


if __name__ == "__main__":
    main()
