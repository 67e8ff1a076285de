"""What README.md, CONTRIBUTING.md and docs/ name exists, their commands parse, and README.ko.md is
README.md in Korean."""

import json
import re
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import pages, tiny

from benchmarks import table1
from docs import tables
from transformer import registry
from transformer.models import boxes

DOCS = sorted(f"docs/{path.name}" for path in pages.ROOT.glob("docs/*.md"))
NAMES = ("README.md", "README.ko.md", "CONTRIBUTING.md", *DOCS)
PAGES = {name: (pages.ROOT / name).read_text("utf-8") for name in NAMES}
RESULTS = json.loads(tables.RESULTS.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    text = PAGES[page]
    assert not pages.missing_files(text) | pages.missing_links(text, Path(page).parent)
    assert not pages.missing_functions(text) | pages.wrong_keys(text)


def test_folders_are_where_the_readme_has_them():
    _, _, rest = PAGES["README.md"].partition("    transformer/\n")
    tree, _, _ = rest.partition("\n\n")
    folders = {f.parent.name for f in (pages.ROOT / "transformer").rglob("__init__.py")}
    assert set(re.findall(r"(\w+)/", tree)) == folders - {"transformer"}


def facts(text):
    """Returns what a page says in any language, by paragraph and line of a table.

    Links, whichever language they lead to, without headings; code and formulas, but for what draws
    a picture in Korean; numbers, but for digits, which may be written out; the first words of each
    line of code, without what explains them.
    """
    links = r"\]\(([^)\s#]*)[^)\s]*\)|(?:src|href)=\"([^\"]+)\""
    in_english = lambda link: "".join(link).replace(".ko.", ".").replace("/ko/", "/")
    return [
        {
            "links": {in_english(link) for link in re.findall(links, part)},
            "code": {*re.findall(r"`[^`]+`", part)} - {"`--language=ko`"},
            "numbers": {*re.findall(r"\d(?:[\d.,]*\d)+", part)},
            "lines": re.findall(r"^ {4,10}(\S.*?)(?:  |$)", part, re.MULTILINE),
        }
        for part in re.split(r"\n\n|\n(?=\|)", text)
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/lineage.md"])
def test_a_korean_page_says_the_same(page):
    both = (facts(PAGES[name]) for name in (page, page.replace(".md", ".ko.md")))
    assert not [pair for pair in zip(*both, strict=True) if pair[0] != pair[1]]


def test_facts_are_what_a_page_says_in_any_language():
    code = "\n\n    make it    # {}\n| 95 |\n| 96 |"
    english = "[tour](docs/tour.md), `a.py` of 38.7 in 3 days" + code.format("runs")
    korean = "사흘에 38.7인 `a.py`, [투어](docs/tour.ko.md)" + code.format("돌린다")
    assert facts(english) == facts(korean)
    changes = ("tour.ko.md", "x.md"), ("a.py", "b.py"), ("38.7", "38.8"), ("make it", "make")
    assert all(facts(korean.replace(*change)) != facts(english) for change in changes)
    assert facts(korean.replace("| 95 |\n| 96 |", "| 96 |\n| 95 |")) != facts(english)


def test_commands_parse(tmp_path, monkeypatch):
    """One may start from a run that another page trains: what is refused is parsed once more."""
    monkeypatch.chdir(tmp_path)
    for name, config in pages.configs().items():
        pages.begin(Path("runs", name), config)
    texts = (*PAGES.values(), "".join(f"    {x}\n" for x in tables.commands(RESULTS)))
    commands = [words for text in texts for words in pages.commands(text)]
    assert len(commands) > 120
    refused = [words for words in commands if pages.mistake(words)]
    assert not [error for words in refused if (error := pages.mistake(words))]


def test_what_does_not_exist_is_missing():
    text = "`runtime/lock.py` (`locked`, `OSError`), `runtime/gone.py` | `test_gone`, "
    text += "`test_rooms.py` (s): `test_imports_go_one_way` (s), `test_what_a_page_names_exists`, "
    text += "`parse` of `modes/command_line.py`, `parse` in\n`loop.py`, tests/gone/, `make tea`\n"
    text += "    from transformer.modes import command_line, gone\n"
    assert pages.missing_files(text) == {"runtime/gone.py", "tests/gone"}
    assert pages.missing_functions(text) == {
        *("runtime/lock.py: OSError", "test_gone", "loop.py: parse", "make tea"),
        *("test_rooms.py: test_what_a_page_names_exists", "transformer.modes: gone"),
    }
    links = "[a](tour.md) [b](tour.md#fork-it) ![c](gone.svg) [d](../README.md#fork-it) http://x/y"
    assert pages.missing_links(links, "docs") == {"tour.md#fork-it", "gone.svg"}


def test_keys_and_commands_that_do_not_parse_are_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "`train.init_from`, `train.init`, `train.en`, `decode.beam_width=4`, `model.d_model=x`, "
    text += "config.optimizer.schedule, `--config.data.dir=FOLDER`, `--config.audit.lines=FILE`"
    wrong = sorted(pages.wrong_keys(text))
    assert wrong[1:] == ["data.dir", "train.init"]
    assert "config.model.d_model must be an integer" in wrong[0]
    right = """
    pip install x && python launch.py --config=configs/quickstart.py  # `make train`
    head x | ../bin/python launch.py --mode=translate --workdir=runs/quickstart > y
`python -m benchmarks.decode --batch 1` (`--batch 32`), `python launch.py --config=...`
    """
    wrong = """
    all 'python launch.py --config=configs/quickstart.py --config.data.dir=x'
    X=1 python launch.py --mode=compare runs/{a,a} \\
       --config.compare.set=1
`python -m benchmarks.decode --batches 1`, `python launch.py --mode=translate --workdir=runs/x`
    """
    assert list(map(pages.mistake, pages.commands(right))) == ["", "", ""]
    assert len(pages.commands(wrong)) == 4
    assert all(map(pages.mistake, pages.commands(wrong)))


def test_the_tables_and_figures_are_those_of_their_results():
    assert not [page for page, text in PAGES.items() if tables.filled(text, RESULTS) != text]
    places = [title for text in PAGES.values() for title in RESULTS if f"<!-- {title} -->" in text]
    assert sorted(places) == sorted(RESULTS)
    for page in ("README.md", "README.ko.md", "docs/results.md"):
        assert not re.findall(r"(?<!\|\n)(?<!-->\n)^\|.*", PAGES[page], re.MULTILINE)
    wrong = re.sub(r"(-->|BLEU |\| )(38\.7|522)", r"\g<1>0.1", PAGES["README.md"])
    assert wrong != PAGES["README.md"] == tables.filled(wrong, RESULTS)
    kinds = json.loads(table1.RESULTS.read_text())["kinds"]
    assert table1.filled(PAGES["docs/table1.md"], kinds) == PAGES["docs/table1.md"]


def test_the_parts_of_each_box_are_those_of_the_registry():
    """With fields that they have, and the file where they are."""
    for box, parts in registry.PARTS.items():
        section = PAGES["docs/boxes.md"].partition(f"## `{box}`\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `(.*?)`.*\| `(.*?)` \|$", section, re.M)
        actual = {boxes.parse(box, part)[0].name: file for part, file in rows}
        path = lambda code: code.partition(":")[0].replace(".", "/").removeprefix("transformer/")
        assert actual == {name: f"{path(code)}.py" for name, code in parts.items()}


def test_the_messages_of_troubleshooting_are_said():
    files = [*(pages.ROOT / "transformer").rglob("*.py"), pages.ROOT / "launch.py"]
    source = re.sub(r'"\s*\n\s*f?"', "", "".join(file.read_text("utf-8") for file in files))
    rows = re.findall(r"^\| (.*?) \|", PAGES["docs/troubleshooting.md"], re.MULTILINE)
    messages = [x for row in rows for x in re.findall("`([^`]+[ =:][^`]*)`", row)]
    assert len(messages) > 15
    assert not [message for message in messages if message not in source]


def test_parts_of_one_s_own(monkeypatch):
    """Those of docs/forking.md: a model of all of them runs."""
    page, changes = PAGES["docs/forking.md"], {}
    for path, code in re.findall(r"^    # (transformer/.*)\.py\n((?:    .*\n|\n)+)", page, re.M):
        module = types.ModuleType(path.replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        file, _, _ = textwrap.dedent(code).partition('\n"')  # without its line of the registry
        exec(file, vars(module))
    for box, name, code in re.findall(r'"(\w+)": {\.\.\., "(\w+)": "([\w.:]+)"},$', page, re.M):
        if box != "mixer":  # which the page has no code of
            monkeypatch.setitem(registry.PARTS[box], name, code)
            changes[box] = name
    assert changes.keys() == {"positions", "feed_forward", "residual"}
    model, inputs = tiny.model(**changes), tiny.unpacked(tiny.pairs())["inputs"]
    assert np.isfinite(tiny.logits(model, tiny.parameters(model, inputs), inputs)).all()


def test_a_beam_search_over_a_step_of_one_s_own(capsys):
    _, _, text = PAGES["docs/forking.md"].partition("beam search over a step of your own")
    block = re.search(r"(?:^    .*\n|^\n)+", text.partition("\n")[2], re.MULTILINE)[0]
    exec(textwrap.dedent(block), {})
    tokens, expected = capsys.readouterr().out, block.rpartition("# ")[2]
    assert re.findall(r"[\d.]+", expected)[:6] == re.findall(r"\d+", tokens)[:6]
