"""Deletes families and tools, with their entries in registry.py, their configs and their tests.

    python tests/without.py families tools      # leaves the core
    python tests/without.py families/images

What imports a deleted folder goes with it: without families/labels there are no classifiers. Tests
of the core that train the quickstart's corpus, or other families, stay and need a corpus of yours.
"""

import ast
import pathlib
import re
import shutil
import sys

IMPORTED_BY = {
    "families/labels": ["families/texts", "families/images"],
    "tools/pages": ["tools/report", "tools/compare", "tools/convert", "tools/audit"],
}


def without(root: pathlib.Path, folders: list[str]) -> None:
    """Deletes `folders` of transformer/, such as 'tools' or 'tools/plan', in the tree `root`."""
    folders = folders + [x for folder in folders for x in IMPORTED_BY.get(folder, [])]
    for folder in folders:
        shutil.rmtree(root / "transformer" / folder)
        shutil.rmtree(root / "tests" / folder, ignore_errors=True)
    packages = tuple(f"transformer.{folder.replace('/', '.')}." for folder in folders)
    names = delete_entries(root / "transformer" / "registry.py", packages)
    delete_configs(root / "configs", names)


def delete_entries(registry: pathlib.Path, packages: tuple[str, ...]) -> set[str]:
    """Deletes the entries whose code is in these packages; returns their names."""
    text = registry.read_text()
    lines, names = text.splitlines(keepends=True), set()
    tables = [x.value for x in ast.parse(text).body if isinstance(x, ast.Assign)]
    for table in reversed(tables):
        for key, value in reversed([*zip(table.keys, table.values, strict=True)]):
            code = value.args[0] if isinstance(value, ast.Call) else value
            if code.value.startswith(packages):
                names.add(key.value)
                del lines[key.lineno - 1 : value.end_lineno]
    registry.write_text("".join(lines))
    return names


def delete_configs(folder: pathlib.Path, names: set[str]) -> None:
    """Deletes the configs of tasks, models and corpora by these names, and what imports those."""
    texts = {file.stem: file.read_text() for file in folder.glob("[!_]*.py")}
    named = re.compile(r'config\.(?:task|architecture|data\.corpus) = "(\w+)"')
    gone = {stem for stem, text in texts.items() if names & {*named.findall(text)}}
    while gone:
        for stem in gone:
            (folder / f"{stem}.py").unlink()
            del texts[stem]
        imported = re.compile(rf"^from configs import .*\b(?:{'|'.join(gone)})\b", re.MULTILINE)
        gone = {stem for stem, text in texts.items() if imported.search(text)}


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    without(pathlib.Path(__file__).resolve().parents[1], sys.argv[1:])
