"""A damaged copy of a trained workdir translates as the whole one, or is refused in one line.

Never another answer, never a traceback. `make fuzz` damages 10,000 copies.
"""

import collections
import json
import os
import random
import shutil

import pytest
from helpers.damage import damaged

from transformer.decoding.translator import Translator
from transformer.errors import one_line
from transformer.modes import command_line
from transformer.tasks import translation

COPIES = int(os.environ.get("FUZZ_COPIES", "200"))
LINES = ["가나다라", "마바사", "아자차카타"]
JSON = (b"[]", b"{}", b"null", b'"x"', b"1e999", b'[{"a": []}]')


def translated(workdir, weights):
    """What --mode=translate answers."""
    arguments = [f"--workdir={workdir}", f"--config.evaluate.weights={weights}"]
    _, _, config = command_line.parse(["--mode=translate", *arguments])
    run = translation.load(config, workdir)
    return [*Translator(run.model, run.vocabulary, **config.decode).translate(run.params, LINES)]


def damage(chosen, file, files):
    """Damages a file; the word for how."""
    content = file.read_bytes()
    ways = {
        "delete": None,
        "empty": b"",
        "double": content + content,
        "other": chosen.choice(files).read_bytes(),
        "json": chosen.choice(JSON),
    }
    way = chosen.choice([*ways, "bytes", "bytes", "bytes", "bytes"])
    file.unlink()  # a hard link
    if way != "delete":
        file.write_bytes(ways[way] if way in ways else damaged(chosen, content))
    return way


@pytest.mark.slow
def test_a_damaged_workdir_gives_the_right_answer_or_one_line(tiny_run, tmp_path):
    whole, chosen, outcomes = tiny_run.workdir, random.Random(0), collections.Counter()
    right = {weights: translated(whole, weights) for weights in ("latest", "best", "average")}
    names = sorted(x.relative_to(whole) for x in whole.rglob("*") if x.is_file())
    # The config may be edited by hand: another value of it gives another answer.
    edited = json.loads((whole / "config.json").read_text())
    for number in range(COPIES):
        copy = shutil.copytree(whole, tmp_path / f"{number}", copy_function=os.link)
        name, weights = chosen.choice(names), chosen.choice([*right])
        way = damage(chosen, copy / name, [whole / x for x in names])
        try:
            answer = translated(copy, weights)
        except Exception as error:  # any: launch.py has one line for what is no bug
            refused = len(one_line(error).splitlines()) == 1
            outcomes["refused" if refused else f"{number}: {name} ({way}): {error!r}"] += 1
        else:
            may_differ = (
                name.name == "config.json" and json.loads((copy / name).read_text()) != edited
            )
            is_right = may_differ or answer == right[weights]
            outcomes["right" if is_right else f"{number}: {name} ({way}): {answer}"] += 1
        shutil.rmtree(copy)
    assert outcomes.keys() == {"right", "refused"}, outcomes
    assert min(outcomes.values()) > COPIES / 10, outcomes
