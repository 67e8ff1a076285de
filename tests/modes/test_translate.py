"""--mode=translate: standard input to standard output, unusual input, copied workdirs."""

import functools
import json
import os
import select
import shutil
import subprocess
import sys
import threading

import pytest
from helpers.runs import ROOT

from transformer.modes import translate
from transformer.workdir import saved_config


@pytest.fixture
def translated(answered, reversal_run):
    """A function (standard input, {config key: value}) -> standard output."""
    return functools.partial(answered, "translate", reversal_run)


def test_nothing_to_translate(translated):
    assert [translated(content) for content in (b"", b" \r\n   \n\n")] == ["", "\n\n\n"]


def test_a_tag_that_the_vocabulary_lacks_is_refused(translated):
    with pytest.raises(ValueError, match=r"config\.decode\.tag must be one of '', found '<2de>'"):
        translated(b"a b", **{"decode.tag": "<2de>"})


@pytest.mark.slow
def test_several_translations_are_numbered_and_scored(translated):
    """NUMBER ||| TRANSLATION ||| SCORE, best first."""
    content = "\n".join(["a b c", "", "h g f e"]).encode()
    out = translated(content, **{"decode.num_hypotheses": 3}).removesuffix("\n").split("\n")
    rows = [row.split(" ||| ") for row in out]
    assert [int(number) for number, _, _ in rows] == [0, 0, 0, 1, 2, 2, 2]
    best = [next(text for number, text, _ in rows if number == n) for n in "012"]
    assert best == ["c b a", "", "e f g h"]
    scores = [float(score) for _, _, score in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)
    assert scores[4:] == sorted(scores[4:], reverse=True)
    assert scores[0] > scores[1]
    assert len({text for _, text, _ in rows[:3]}) == 3


@pytest.mark.slow
def test_prefixes_stand_behind_a_tab(translated):
    """Without config.translate.prefix, a tab is an ordinary character."""
    content = b"a b c\td\na b c\t\na b c\nh g\te f\tg\n"
    forced = translated(content, **{"translate.prefix": True}).split("\n")
    assert forced[0].startswith("d")
    assert forced[1:3] == ["c b a", "c b a"]
    assert forced[3].startswith("e f")
    assert len(forced) == 5
    free = translated(content).split("\n")
    assert free[2] == "c b a"
    assert not free[3].startswith("e f g")


@pytest.mark.slow
def test_json_objects_keep_what_they_hold(translated):
    asked = [
        {"id": 7, "source": "a b c", "tags": ["x", {"y": None}]},
        {"source": "h\tg\nf", "prefix": "b"},
        {"source": ""},
    ]
    out = translated("\n".join(map(json.dumps, asked)).encode(), **{"translate.format": "json"})
    answers = [json.loads(line) for line in out.removesuffix("\n").split("\n")]
    assert len(answers) == 3
    assert list(answers[0]) == ["id", "source", "tags", "translation", "score"]
    assert {key: answers[0][key] for key in asked[0]} == asked[0]
    assert answers[0]["translation"] == "c b a"
    assert answers[0]["score"] < 0
    assert answers[1]["translation"].startswith("b")
    assert answers[1]["source"] == "h\tg\nf"
    assert answers[2]["translation"] == ""
    changes = {"translate.format": "json", "decode.num_hypotheses": 2}
    answer = json.loads(translated(b'{"source": "a b c"}', **changes))
    first, second = answer["hypotheses"]
    assert first == {"text": "c b a", "score": answer["score"]}
    assert answer["translation"] == "c b a" != second["text"]
    assert second["score"] < first["score"]


@pytest.mark.parametrize(("terminal", "chunk_lines"), [(True, 100), (False, 1)])
def test_a_line_is_answered_before_the_next_one_is_written(
    reversal_run, monkeypatch, terminal, chunk_lines
):
    """Typed, at once; by a program that waits for answers, with config.decode.chunk_lines=1."""
    config = saved_config.read_config(reversal_run)
    config.decode.chunk_lines = chunk_lines
    source, into = reversed(os.openpty()) if terminal else os.pipe()
    readable, writable = os.pipe()
    answers = []

    def talk():
        for line in (b"a b c\n", b"\n", b"h g\n"):
            os.write(into, line)
            if not select.select([readable], [], [], 60)[0]:
                break
            answers.append(os.read(readable, 100))
        os.write(into, b"\x04") if terminal else os.close(into)

    partner = threading.Thread(target=talk)
    with open(source) as stdin, open(writable, "w") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        partner.start()
        translate.translate(config, reversal_run)
    partner.join()
    os.close(readable)
    if terminal:
        os.close(into)
    assert answers == [b"c b a\n", b"\n", b"g h\n"]


@pytest.mark.slow
def test_a_mistake_in_the_input_ends_with_status_2(reversal_run, tmp_path):
    """One line of error names the input line; the chunks before it have been translated.

    Of a copied workdir, from another folder, with an ASCII locale. Standard output has only
    results.
    """
    copy = shutil.copytree(reversal_run, tmp_path / "elsewhere" / "copy")
    asked = [{"source": "a b c"}, {"source": "h g"}, {"source": "a b"}, ["a"], {"source": "a"}]
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "launch.py", "--mode=translate", f"--workdir={copy}"),
            *("--config.translate.format=json", "--config.decode.chunk_lines=2"),
        ],
        input="\n".join(map(json.dumps, asked)),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("launch.py: line 4: expected a JSON object")
    assert "Traceback" not in done.stderr
    answers = [json.loads(line)["translation"] for line in done.stdout.splitlines()]
    assert answers == ["c b a", "g h"]


@pytest.mark.slow
def test_what_the_readme_says_to_ship_is_enough(tiny_run, answered, tmp_path):
    page = (ROOT / "docs" / "your-data.md").read_text()
    assert "Copy `best/`, `vocabulary/` and `config.json`" in page
    for name in ("best", "vocabulary"):
        shutil.copytree(tiny_run.workdir / name, tmp_path / "shipped" / name)
    shutil.copy(tiny_run.workdir / "config.json", tmp_path / "shipped")
    content = "가 나 다\n".encode()
    changes = {"evaluate.weights": "best"}
    expected = answered("translate", tiny_run.workdir, content, **changes)
    assert answered("translate", tmp_path / "shipped", content, **changes) == expected != ""
