"""Imports point one way, and files stay small enough to be read and forked."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A module imports only from lower levels.
LEVELS = (
    ("errors",),
    ("storage", "config_files", "streams"),
    ("processes",),
    ("checksums",),
    ("store",),
    (
        *(
            "capacity",
            "checkpoint",
            "collectives",
            "consensus",
            "decode",
            "grammar",
            "layers",
            "lexicon",
            "lines",
            "loss",
        ),
        *(
            "metrics",
            "optimizer",
            "parallel",
            "shapes",
            "text_files",
            "tokenizer",
            "watch",
            "wmt",
        ),
    ),
    ("batches", "corpora", "ids", "models", "models.ensemble", "models.translation"),
    ("results", "stages", "weights"),
    ("search",),
    ("splits", "trained", "translator"),
    ("vocabularies",),
    ("performance", "prepare", "score", "translate", "update", "verify"),
    ("attention", "evaluate"),
    ("train",),
    ("plan",),
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
MODELS = {f"models.{path.stem}" for path in (ROOT / "transformer" / "models").glob("[!_]*.py")}
LEVEL |= dict.fromkeys(MODELS, LEVEL["models"])  # a fork's own, too
# Within a level: ids of the special pieces, words of the grammar, what is put into rows, the
# table of classes, what a checkpoint's files are held against and who looks, where files are.
NEIGHBOURS = {
    ("decode", "tokenizer"),
    ("grammar", "lexicon"),
    ("batches", "ids"),
    *(("models", model) for model in MODELS),
    *((model, "models.translation") for model in MODELS),
}

# What only the named modules may mention; nothing else of transformer/, configs/ and launch.py.
KEPT_TO = {
    "absl.flags": {"launch", "config_files"},
    "ml_collections": {
        *("launch", "prepare", "train", "evaluate", "trained", "plan", "update", "verify"),
        *("translate", "score", "attention", "splits", "vocabularies", "configs"),
        *("config_files",),
    },
    "tensorflow_datasets": {"corpora", "wmt"},
    "orbax": {"store"},
    "etils": {"storage"},
    "fsspec": {"storage"},
    "jax.sharding": {"parallel"},
    "jax.pmap": {"parallel"},
    "jax.shard_map": {"parallel"},
    "jax.experimental.shard_map": {"parallel"},
    "tensorflow": set(),
    "torch": set(),
}

LIBRARY = sorted((ROOT / "transformer").rglob("*.py"))
CONFIGS = sorted((ROOT / "configs").rglob("*.py"))
FILES = [*LIBRARY, *CONFIGS, ROOT / "launch.py"]
MOST_LINES = 320


def name_of(file):
    """A module as the tables above call it."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "transformer" else parts[:1]
    return ".".join(part for part in parts if part != "__init__")


def mentions(file):
    """The dotted names that a file imports, or reaches through what it imports: jax.pmap."""
    tree = ast.parse(file.read_text())
    meaning, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(alias.name)
                top = alias.name.partition(".")[0]
                meaning[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: a relative import"
            for alias in node.names:
                found.add(f"{node.module}.{alias.name}")
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in meaning:
            found.add(".".join([meaning[node.id], *reversed(names)]))
    return found


def ours(file):
    """The modules of transformer/ that a file imports."""
    found = set()
    for mention in mentions(file):
        parts = mention.split(".")
        if parts[0] != "transformer":
            continue
        names = (".".join(parts[1:stop]) for stop in range(len(parts), 1, -1))
        found.add(next((name for name in names if name in LEVEL), mention))
    return found


def ids(files):
    return [str(file.relative_to(ROOT)) for file in files]


@pytest.mark.parametrize("file", LIBRARY, ids=ids(LIBRARY))
def test_imports_point_down(file):
    name = name_of(file)
    if not name:
        assert not ours(file)
        return
    assert name in LEVEL, f"{file.name} has no place in LEVELS yet"
    for other in ours(file) - {name}:
        assert other in LEVEL, f"{name} imports {other}, which is not there"
        lower = LEVEL[other] < LEVEL[name]
        assert lower or (name, other) in NEIGHBOURS, f"{name} imports {other}"


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_libraries_are_kept_to_their_file(file):
    found = mentions(file)
    for library, allowed in KEPT_TO.items():
        if name_of(file) not in allowed:
            inside = {name for name in found if f"{name}.".startswith(f"{library}.")}
            assert not inside, f"{file.name} mentions {inside}"


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_configs_are_above_the_library(file):
    """The library imports no config, a config only other configs; launch.py loads one by path."""
    allowed = {"configs": {"configs", "ml_collections"}}.get(name_of(file))
    tops = {mention.partition(".")[0] for mention in mentions(file)}
    if allowed is None:
        assert "configs" not in tops
    else:
        assert tops <= allowed


def test_nothing_imports_the_door():
    for file in [*LIBRARY, *CONFIGS]:
        assert "launch" not in {mention.partition(".")[0] for mention in mentions(file)}


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_files_are_short(file):
    lines = file.read_text().count("\n")
    assert lines <= MOST_LINES


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import jax.sharding as s\ns.Mesh", {"jax.sharding", "jax.sharding.Mesh"}),
        ("from jax import pmap as p\np()", {"jax.pmap"}),
        ("import jax\ndef f():\n    return jax.shard_map(f)", {"jax", "jax.shard_map"}),
        ("import jax\nx.sharding", {"jax"}),
        ("def f():\n    from transformer import train", {"transformer.train"}),
    ],
)
def test_mentions_are_seen(tmp_path, source, found):
    file = tmp_path / "file.py"
    file.write_text(source)
    assert mentions(file) == found
