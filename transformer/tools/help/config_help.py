"""--help of a config: each key with its value, its rule, and its comment in the config files."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

from transformer.modes.command_line import parse
from transformer.registry import MODES, load
from transformer.workdir import config_files, key_tables
from transformer.workdir.key_tables import flatten

# Most used keys, shown before the groups.
FIRST = (
    *("data.directory", "data.source_language", "data.target_language", "data.batch_tokens"),
    *("vocabulary.size", "model.d_model", "model.num_layers", "model.dropout_rate"),
    *("train.num_steps", "evaluate.every", "parallel.strategy", "decode.beam_width"),
)
WIDTH = 80
# `config.data.train = "train"  # or ...`, in a table `"data.train": "train",  # or ...`, and in a
# group `"cell": "gru",  # ...`
ASSIGNED = re.compile(r'(?:config\.)?"?([\w.]+)"?(?: = |: )(?:[^#"]|"[^"]*")*(?:  # (.*))?')


def text(arguments: list[str]) -> str:
    """Returns the keys of the config of a command line, a paragraph for each group.

    A key's comment is in the --config or in a config that it imports, on the key's line or above.
    """
    mode, _, config = parse(arguments)
    values = {key: x for key, x in flatten(config).items() if not key.endswith("fingerprint")}
    files = [x.partition("=")[2].partition(":")[0] for x in arguments if x.startswith("--config=")]
    defaults, table = {}, key_tables.mode_table(mode)
    if MODES[mode].start == "configs":  # each config of the FILE has its own task and keys
        values = {key: values[key] for key in table}
    else:
        # Only keys of the config's own architecture and optimizer.
        task_defaults, task_table = key_tables.task_table(config)
        defaults, table = flatten(task_defaults), task_table | table
        files = [config.task, *files]
    about = {}
    for source in [source for file in files for source in sources(file)]:
        by_key = comments(source)
        # A key within braces, {"cell": "gru"}, belongs to config.model.
        about |= by_key | {f"model.{key}": comment for key, comment in by_key.items()}
    if MODES[mode].keys:
        about |= comments(inspect.getsource(load(MODES[mode].keys.partition(":")[0])))
    groups = {"Most used": [key for key in FIRST if key in values]}
    for key in values:
        group = key.rpartition(".")[0].partition(".")[0]
        groups.setdefault(f"config.{group}".rstrip("."), []).append(key)
    text_of = lambda key: described(key, values[key], defaults, table, about)
    paragraphs = ("\n".join([title, *map(text_of, keys)]) for title, keys in groups.items() if keys)
    return "\n\n".join(paragraphs)


def sources(name: str) -> list[str]:
    """Returns the text of a config file, after those of the configs that it imports."""
    text = Path(config_files.find(name).origin).read_text("utf-8")
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    imported = [x.name for node in nodes if node.module == "configs" for x in node.names]
    return [*(y for name in imported for y in sources(name)), text]


def comments(source: str) -> dict[str, str]:
    """Returns {key: comment} of a config file; a key within braces lacks the name of its group."""
    by_key, above = {}, []
    for line in map(str.strip, source.splitlines()):
        if line.startswith("# "):
            above.append(line[2:])
            continue
        if (assigned := ASSIGNED.fullmatch(line)) and (above or assigned[2]):
            by_key[assigned[1]] = " ".join([*above, assigned[2] or ""]).strip()
        above = []
    return by_key


def described(key: str, value: object, defaults: dict, table: dict, about: dict[str, str]) -> str:
    """Returns a key with its value, then its default, rule and comment on lines below."""
    said = [f"default {defaults[key]!r}"] if defaults.get(key, value) != value else []
    if isinstance(entry := table.get(key), list):
        rule = entry[1]
        said.append(rule if isinstance(rule, str) else f"one of {', '.join(map(repr, rule))}")
    lines = textwrap.wrap("; ".join(filter(None, [*said, about.get(key)])), WIDTH - 6)
    return "\n".join([f"  --config.{key}={value}", *(f"      {line}" for line in lines)])
