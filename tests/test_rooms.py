"""Imports go one way: a file imports from its own room and from the rooms before it."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = (
    *("distributed", "storage", "monitoring", "data", "models"),
    *("decoding", "checkpoints", "interop", "tasks", "training", "reports", "modes"),
)
APART = {("models", room) for room in ROOMS} - {("models", "models")} | {("data", "models")}
# Libraries, and the rooms or files that may import them.
KEPT_TO = {
    "absl": {"modes/command_line.py", "modes/overrides.py"},
    "ml_collections": {
        *("launch.py", "configs"),
        *("checkpoints", "tasks", "training", "reports", "modes"),
    },
    "vl_convert": {"reports"},
    "tensorflow_datasets": {"data"},
    "orbax": {"checkpoints"},
    "jax.sharding": {"distributed"},
    "jax.pmap": {"distributed"},
    "jax.shard_map": {"distributed"},
    "tensorflow": set(),
    "torch": {"tools/convert/arrays.py"},
    "safetensors": {"tools/convert/arrays.py"},
    "ctranslate2": {"tools/convert/ctranslate2_write.py"},
}
FILES = [*ROOT.glob("transformer/**/*.py"), *ROOT.glob("configs/*.py"), ROOT / "launch.py"]


def imports(source):
    """The dotted names that a source imports, and jax's attributes that it reads."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "jax":
            yield f"jax.{node.attr}"


def is_allowed(file, name):
    """Whether a file, by its path from the root, may import a name."""
    room, top, *rest = file.split("/")[1] if "/" in file else file, *name.split(".")
    if top == "transformer" and file.startswith("transformer/"):
        other = rest[0]
        ordered = room in ROOMS and other in ROOMS and ROOMS.index(other) <= ROOMS.index(room)
        return other == "errors" or (ordered and (room, other) not in APART)
    if top in ("configs", "launch"):
        return file.startswith("configs/") and top == "configs"
    for library, places in KEPT_TO.items():
        if f"{name}.".startswith(f"{library}."):
            return any(file.removeprefix("transformer/").startswith(place) for place in places)
    return top != "transformer" or file == "launch.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    file = str(path.relative_to(ROOT))
    wrong = {name for name in imports(path.read_text()) if not is_allowed(file, name)}
    assert not wrong


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("transformer/storage/a.py", "from transformer.models import layers"),
        ("transformer/models/a.py", "def f():\n    from transformer.storage import paths"),
        ("transformer/models/a.py", "import transformer.data.pairs"),
        ("transformer/tasks/a.py", "import jax\njax.pmap(f)"),
        ("transformer/data/a.py", "from ml_collections import ConfigDict"),
        ("transformer/modes/a.py", "import launch"),
        ("configs/a.py", "from transformer import models"),
        ("transformer/modes/a.py", "from configs import wmt_base"),
    ],
)
def test_a_wrong_import_is_seen(file, source):
    assert not all(is_allowed(file, name) for name in imports(source))


def test_every_room_says_what_it_is():
    for room in ROOMS:
        assert ast.get_docstring(ast.parse((ROOT / f"transformer/{room}/__init__.py").read_text()))
