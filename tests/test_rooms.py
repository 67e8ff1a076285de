"""Imports go one way: the core is read from below to above, and knows no family and no tool."""

import ast
import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "transformer"
CORE = (
    *("distributed", "runtime", "models", "data", "decoding"),
    *("workdir", "checkpoints", "tasks", "training", "modes"),
)
APART = {("models", room) for room in CORE} - {("models", "models")} | {("data", "models")}
# What a family or a tool may import of its wing besides itself.
SHARED = {
    "families/texts": "families/labels",
    "families/images": "families/labels",
    "families/language_model": "families/sampling",
    **dict.fromkeys((f"tools/{path.name}" for path in LIBRARY.glob("tools/*/")), "tools/pages"),
}
# Libraries, and the folders or files that may import them.
KEPT_TO = {
    "absl": {"modes/command_line.py"},
    "ml_collections": {
        *("launch.py", "configs", "families", "tools"),
        *("workdir", "tasks", "training", "modes"),
    },
    "jinja2": {"tools"},
    "vl_convert": {"tools/pages"},
    "tensorflow_datasets": {"data/tfds_corpora.py", "families/images"},
    "orbax": {"checkpoints"},
    "jax.sharding": {"distributed"},
    "jax.pmap": {"distributed"},
    "jax.shard_map": {"distributed"},
    "tensorflow": set(),
    "torch": {"tools/convert/arrays.py"},
    "safetensors": {"tools/convert/arrays.py"},
    "ctranslate2": {"tools/convert/ctranslate2_write.py"},
}
FILES = [*LIBRARY.rglob("*.py"), *ROOT.glob("configs/*.py"), ROOT / "launch.py"]


def imports(source):
    """Yields (name, whether inside a function) of what a source imports or reads of jax."""
    tree = ast.parse(source)
    functions = (x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef))
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "jax":
            names = [f"jax.{node.attr}"]
        else:
            continue
        yield from ((name, id(node) in inside) for name in names)


def room_of(parts):
    """Returns the room of a path or a module below transformer/: 'data', 'families/texts'."""
    return "/".join(parts[: 1 + (parts[0] in ("families", "tools"))])


def is_allowed(file, name, inside):
    """Whether a file, by its path from the root, may import a name."""
    top, *rest = name.split(".")
    if name == "transformer":  # for its version
        return True
    if top == "transformer" and file.startswith("transformer/"):
        room, other = room_of(file.split("/")[1:]), room_of(rest)
        if other in ("errors", "registry", room):
            return True
        if other in CORE:
            is_before = room not in CORE or CORE.index(other) < CORE.index(room)
            return is_before and (room, other) not in APART
        return other == SHARED.get(room) or (
            room.startswith("tools/") and other.startswith("families/") and inside
        )
    if top in ("configs", "launch"):
        return file.startswith("configs/") and top == "configs"
    for library, places in KEPT_TO.items():
        if f"{name}.".startswith(f"{library}."):
            return any(file.removeprefix("transformer/").startswith(place) for place in places)
    return top != "transformer" or file == "launch.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    file = str(path.relative_to(ROOT))
    assert not {
        name for name, inside in imports(path.read_text()) if not is_allowed(file, name, inside)
    }


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("transformer/runtime/a.py", "from transformer.models import layers"),
        ("transformer/models/a.py", "def f():\n    from transformer.runtime import paths"),
        ("transformer/models/a.py", "import transformer.data.pairs"),
        ("transformer/modes/a.py", "def f():\n    from transformer.tools.report import report"),
        ("transformer/tasks/a.py", "from transformer.families.labels import classifiers"),
        ("transformer/families/texts/a.py", "from transformer.families.images import images"),
        ("transformer/families/texts/a.py", "from transformer.tools.pages import page"),
        ("transformer/tools/report/a.py", "from transformer.families.images import images"),
        ("transformer/tools/report/a.py", "from transformer.tools.compare import compare"),
        ("transformer/tasks/a.py", "import jax\njax.pmap(f)"),
        ("transformer/data/a.py", "from ml_collections import ConfigDict"),
        ("transformer/modes/a.py", "import launch"),
        ("configs/a.py", "from transformer import models"),
        ("transformer/modes/a.py", "from configs import wmt_base"),
    ],
)
def test_a_wrong_import_is_seen(file, source):
    assert not all(is_allowed(file, name, inside) for name, inside in imports(source))


def test_every_folder_names_its_files():
    for file in LIBRARY.rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(file.read_text()))
        files = {path.name for path in file.parent.glob("[!_]*.*")} - {"errors.py", "registry.py"}
        assert docstring, f"{file.relative_to(ROOT)} has no docstring"
        missing = sorted(files - set(re.findall(r"\w+\.\w+", docstring)))
        assert not missing, f"{file.relative_to(ROOT)} does not name {', '.join(missing)}"


def test_no_file_name_is_there_twice():
    names = collections.Counter(path.name for path in LIBRARY.rglob("[!_]*.py"))
    assert names.most_common(1)[0][1] == 1
