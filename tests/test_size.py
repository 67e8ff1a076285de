"""The size of the library: lines of code, without blanks and explanations; words of the pages.

    make size

Explaining in code costs nothing, because only statements count. The limits only go down: what a
change adds is paid for by what it removes.
"""

import ast
import functools
import io
import pathlib
import signal
import tokenize

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = {"core": 6_050, "families": 5_241, "tools": 6_642, "tests": 26_760, "words": 37_600}
OF_A_FOLDER = {"families": 700, "tools": 1_000}
BLANK = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def lines_of_code(text: str) -> int:
    """Returns how many lines of a source have code on them."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node):
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, docstring.end_lineno + 1))
    return len(lines)


@functools.cache
def sizes() -> dict[str, dict[str, int]]:
    """Returns {name in LIMITS: {folder: its size}}; launch.py is of the core, tests count whole."""
    library, counts = ROOT / "transformer", {name: {} for name in LIMITS}
    for file in [ROOT / "launch.py", *sorted(library.rglob("*.py"))]:
        place = file.relative_to(library if file.is_relative_to(library) else ROOT)
        wing = place.parts[0] if place.parts[0] in OF_A_FOLDER else "core"
        folder = place.parent.as_posix() if len(place.parts) > 1 else place.name
        counts[wing][folder] = counts[wing].get(folder, 0) + lines_of_code(file.read_text())
    tests = (file.read_text() for file in ROOT.glob("tests/**/*.py"))
    counts["tests"]["tests"] = sum(len(text.splitlines()) for text in tests)
    for page in [*ROOT.glob("README*.md"), *sorted(ROOT.glob("docs/*.md"))]:
        counts["words"][page.relative_to(ROOT).as_posix()] = len(page.read_text("utf-8").split())
    return counts


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_outgrows_its_limit(name):
    folders = sizes()[name]
    assert sum(folders.values()) <= LIMITS[name], folders
    too_large = {x: n for x, n in folders.items() if n > OF_A_FOLDER.get(name, LIMITS[name])}
    assert not too_large, f"more than {OF_A_FOLDER[name]} lines in {too_large}"


def test_the_readme_has_the_size_of_the_core():
    said = f"the whole core {round(sum(sizes()['core'].values()), -2):,}"
    assert said in (ROOT / "README.md").read_text("utf-8")


def main() -> None:
    """Prints the ledger: the size of every folder, and the sums beside their limits."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as `head` ends it
    for name, folders in sizes().items():
        print(f"{name:24}{sum(folders.values()):6,} of {LIMITS[name]:,}")
        for folder, count in filter(all, folders.items()):
            print(f"  {folder:22}{count:6,}")


if __name__ == "__main__":
    main()
