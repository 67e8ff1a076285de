"""The size of transformer/: lines of code, without blanks, docstrings and comments.

    python tests/size.py

Explaining costs nothing, so that only statements count. CONTRIBUTING.md has the rule of admission.
"""

import ast
import io
import pathlib
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = {"core": 7_760, "families": 3_800, "tools": 6_200}
A_FAMILY, A_TOOL, TESTS = 700, 1_000, 26_000
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


def sizes() -> dict[str, int]:
    """Returns the lines of code of each folder of transformer/, of families/ and of tools/."""
    library = ROOT / "transformer"
    counts = {}
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).parts[:-1]
        folder = "/".join(parts) or "registry.py, errors.py"
        counts[folder] = counts.get(folder, 0) + lines_of_code(file.read_text())
    return counts


def wing(folder: str) -> str:
    """Returns 'core', 'families' or 'tools'."""
    return folder.split("/")[0] if folder.startswith(("families", "tools")) else "core"


def main() -> None:
    """Prints the ledger: the lines of code of every folder, and their sums beside the limits."""
    counts = sizes()
    for name, limit in LIMITS.items():
        folders = {folder: n for folder, n in counts.items() if n and wing(folder) == name}
        print_line(name, sum(folders.values()), limit, f" of {limit:,}")
        for folder, count in folders.items():
            print_line(
                f"  {folder}", count, {"families": A_FAMILY, "tools": A_TOOL}.get(name, limit)
            )
    tests = sum(len(file.read_text().splitlines()) for file in ROOT.glob("tests/**/*.py"))
    print_line("tests, all lines", tests, TESTS, f" of {TESTS:,}")


def print_line(name: str, count: int, limit: int, end: str = "") -> None:
    """Prints a line of the ledger, and says where a limit is exceeded."""
    print(f"{name:24}{count:6,}{end}{' too many' if count > limit else ''}")


if __name__ == "__main__":
    main()
