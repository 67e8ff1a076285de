"""What a page of documentation names, and what of it does not exist or does not parse."""

import ast
import functools
import inspect
import itertools
import json
import re
import shlex
from pathlib import Path

import optax
from ml_collections import ConfigDict

from transformer import registry
from transformer.errors import UserError
from transformer.modes import command_line
from transformer.runtime import checksums
from transformer.workdir import config_files, key_tables

ROOT = Path(__file__).resolve().parents[2]
# What docs/forking.md tells the reader to write.
TO_WRITE = {"configs/three_layers.py", "configs/mixer.py", "configs/toy.py", "models/mixer.py"}
TO_WRITE |= {"tasks/toy.py", "loss.z_loss", "transformer/bias", "configs/mine.py"}
TO_WRITE |= {
    f"transformer/families/parts/{name}.py" for name in ("distance_bias", "sparse", "layer_scale")
}
PLACEHOLDER = re.compile(r"\b(?:test_)?[A-Z]{4,}\.|\.\.\.")  # TASK.py, test_FILE.py, ...

NAME = r"(?<![\w/.])[\w/.-]*\w\.(?:py|md|css|js)\b"
BELOW = r"(?<![\w/.-])(?:transformer|tests|configs|docs|benchmarks)/[\w/.-]*\w"
FUNCTIONS = (  # (file, names)
    rf"`({NAME})`\s+\(([^)]*)\)",  # `file.py` (`f`, `g`)
    rf"`({NAME})`(?: \(s\))?: ((?:(?:, )?`test_\w+`(?: \(s\))?)+)",  # `test_file.py`: `test_a` (s)
)
FUNCTION_OF = rf"(`\w+`) (?:in|of)\s+`({NAME})`"  # `f` of `file.py`
IMPORT = r"^ +from ((?:transformer|configs|docs)[\w.]*) import ([\w, ]+)$"
TARGET = r"(?:`|^ {4})make ([\w./-]+)(?=[`\s])"
VALUE = r"(?:=([^A-Z$\s`\"][^\s`\"]*))?"  # but for FILE, N, $i
KEY = rf"(?<![\w.])config\.([a-z]\w*(?:\.[a-z]\w*)+){VALUE}"
FILES = r"\w+\.(?:de|en|ko|gz|txt|tsv|bin|html|json|npz|safetensors|trees)\b"  # train.de, x.html
BARE_KEY = rf"`(?!{FILES})([a-z]+\.[a-z][\w.]*){VALUE}`"


@functools.cache
def path_of(name):
    """Returns the path of a file that is named from the root or a folder of it, None without one.

    A name without folders may be anywhere.
    """
    folders = [ROOT, *(ROOT / x for x in ("transformer", "tests", "docs", "configs", "benchmarks"))]
    if "/" in name:
        return next((f / name for f in folders if (f / name).is_file()), None)
    anywhere = (path for folder in folders[1:] for path in folder.rglob(name))
    return next(itertools.chain(ROOT.glob(name), anywhere), None)


@functools.cache
def defined(path):
    """Returns the names of a file's functions, classes and variables."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return stored | {x.name for x in nodes if isinstance(x, ast.FunctionDef | ast.ClassDef)}


@functools.cache
def tests():
    return set().union(*map(defined, (ROOT / "tests").rglob("test_*.py")))


@functools.cache
def configs():
    """Returns all configs, {name: config}, but that of fine_tuning, which starts from a run."""
    names = sorted(p.stem for p in ROOT.glob("configs/[!_]*.py") if p.stem != "fine_tuning")
    return {name: config_files.load_config(f"configs/{name}.py") for name in names}


@functools.cache
def keys():
    """Returns {key: a config that has it}, of groups and of modes, too; None for arguments of a
    schedule."""
    of_key = {}
    of_modes = [key_tables.set_mode_keys(ConfigDict(), mode) for mode in registry.MODES]
    for config in (*configs().values(), *of_modes):
        for key in key_tables.flatten(config):
            of_key |= dict.fromkeys(itertools.accumulate(key.split("."), "{}.{}".format), config)
    schedules = [x for x in vars(optax.schedules).values() if inspect.isfunction(x)]
    arguments = itertools.chain(*(inspect.signature(x).parameters for x in schedules))
    of_key |= {f"optimizer.schedule.{x}": None for x in arguments} | of_key
    return of_key


def missing_files(text):
    """Returns the files and folders that a text names and that do not exist."""
    text = re.sub(r"https?://\S+", "", text)
    absent = {name for name in re.findall(NAME, text) if not path_of(name)}
    absent |= {name for name in re.findall(BELOW, text) if not (ROOT / name).exists()}
    return {name for name in absent if not PLACEHOLDER.search(name)} - TO_WRITE


def missing_links(text, folder):
    """Returns the links to files, or to headings in them, that lead nowhere."""
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text)
    absent = set()
    for link in filter(lambda x: "://" not in x, map("".join, links)):
        name, _, anchor = link.partition("#")
        path = ROOT / folder / name
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M) if anchor else []
        anchors = {re.sub(r"[^\w -]", "", x.lower()).replace(" ", "-") for x in headings}
        if not path.exists() or (anchor and anchor not in anchors):
            absent.add(link)
    return absent


def missing_functions(text):
    """Returns the functions, tests and targets of make that are not where a text has them."""
    absent = set(re.findall(r"`(test_[a-z]\w+)`", text)) - tests()
    named = [match for pattern in FUNCTIONS for match in re.findall(pattern, text)]
    named += [(file, name) for name, file in re.findall(FUNCTION_OF, text)]
    for file, content in named:
        if path := path_of(file):
            names = set(re.findall(r"`(\w+)`", content))
            absent |= {f"{file}: {name}" for name in names - defined(path)}
    for module, content in re.findall(IMPORT, text, re.M):
        path = ROOT / module.replace(".", "/")
        file = path.with_suffix(".py")
        known = defined(file) if file.exists() else {p.stem for p in path.glob("*.py")}
        absent |= {f"{module}: {name}" for name in set(content.split(", ")) - known}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    return absent | {f"make {x}" for x in re.findall(TARGET, text, re.M) if x not in targets}


def wrong_keys(text):
    """Returns the config keys that no config has, and what is said of values of another type."""
    wrong = set()
    bare = [x for x in re.findall(BARE_KEY, text) if x[0].partition(".")[0] in keys()]
    for key, value in re.findall(KEY, text) + bare:
        if key not in keys().keys() | TO_WRITE:
            wrong.add(key)
        elif value and (config := keys().get(key)):
            try:
                config = config.copy_and_resolve_references()
                command_line.set_key(config, key, f"--config.{key}={value}")
            except UserError as error:
                wrong.add(str(error))
    return wrong


def commands(text):
    """Returns the commands of a page that run Python, in blocks of code and in backticks.

    Each is the words after `python`: ['launch.py', '--mode=compare', ...].
    """
    text = re.sub(r"\\\n\s*", " ", text)
    code = [line for line in text.splitlines() if line.startswith("    ")]
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    found = []
    for line in (*code, *re.findall(r"`([^`]+)`", prose)):
        if "python" in line and not PLACEHOLDER.search(line):
            # process_id=$i, gs://BUCKET/run, runs/{a,b}
            line = line.replace("gs://", "")
            line = re.sub(r"=(?:\$\w+|[A-Z])(?= |$)", "=1", line)
            each = lambda m: " ".join(m[1] + name for name in m[2].split(","))
            found += _after_python(re.sub(r"(\S+)\{([\w,]+)\}", each, line))
    return found


def _after_python(line):
    """Yields the words after each `python` of a line of shell, also of one that is quoted in it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for i, word in enumerate(words):
        if "python " in word:
            yield from _after_python(word)
        elif Path(word).name == "python":
            in_command = lambda x: not re.fullmatch(r"[();<>|&]+", x)
            yield list(itertools.takewhile(in_command, words[i + 1 :]))


def mistake(words):
    """Returns what is wrong with a command, '' if nothing is.

    Of `python -m MODULE` all options have to be in the module, quoted. launch.py's arguments are
    parsed; a run that they start in runs/ is begun, so that other commands can start from it.
    """
    if words[:1] == ["-m"]:
        path = ROOT / words[1].replace(".", "/")
        files = [x for x in (path.with_suffix(".py"), path / "__main__.py") if x.exists()]
        source = "".join(x.read_text() for x in files)
        options = [x.partition("=")[0] for x in words if re.match(r"--(?!config)", x)]
        return "" if source and all(f'"{x}"' in source for x in options) else " ".join(words)
    arguments = [x for x in words[1:] if x != "--help"]
    if words[:1] != ["launch.py"] or not arguments or arguments[0][len("--config=") :] in TO_WRITE:
        return ""
    try:
        mode, folder, config = command_line.parse(arguments)
    except UserError as error:
        return f"{' '.join(words)}: {error}"
    if mode in ("train", "import"):
        begin(folder[1] if mode == "import" else folder, config)
    return ""


def begin(workdir, config):
    """Leaves what the command line reads of a run: its config.json, and a step to resume from."""
    if workdir.parts[0] == "runs":
        step = workdir / "checkpoints" / "1"
        (step / "opt_state").mkdir(parents=True, exist_ok=True)
        (step / "opt_state" / "x").touch()
        (step / checksums.NAME).write_bytes(checksums.checksums_of(step))
        (workdir / "config.json").write_text(json.dumps(ConfigDict(config).to_dict()))
