"""What is damaged gives the right answer, or one line that says what is wrong.

Never another answer, never a traceback: a trained workdir in each mode that reads one, a foreign
model, the file of a sweep, the body of a request. `make fuzz` damages 10,000 of each.
"""

import collections
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile

import pytest
from helpers import pages
from helpers.damage import damaged
from tools.serve.test_application import serving

from transformer import registry
from transformer.errors import UserError, one_line
from transformer.modes import command_line
from transformer.tools.sweep import sweep_file

pytestmark = pytest.mark.slow
COPIES = int(os.environ.get("FUZZ_COPIES", "50"))
LINES, PAIRS = "가나다라\n마바사\n", "가나다라\tdcba\n마바사\tabc\n"
# {what is asked of a workdir: (mode, input, argument)}. An answer of FIXED follows from what has
# checksums; the others show what a user may edit.
FIXED = {
    "latest": ("translate", LINES, "--config.evaluate.weights=latest"),
    "best": ("translate", LINES, "--config.evaluate.weights=best"),
    "average": ("translate", LINES, "--config.evaluate.weights=average"),
    "score": ("score", PAIRS, "--config.evaluate.weights=latest"),
    "align": ("align", PAIRS, "--config.evaluate.weights=best"),
}
ASKED = FIXED | {
    "evaluate": ("evaluate", "", "--config.evaluate.split=validation"),
    "verify": ("verify", "", "--config.evaluate.weights=best"),
    "report": ("report", "", "--config.evaluate.weights=best"),
}


def answer(mode, content, *arguments):
    """What a mode of launch.py writes to standard output."""
    mode, place, config = command_line.parse([f"--mode={mode}", *arguments])
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(content)
        file.seek(0)
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
            patch.setattr(sys, "stdin", file)
            with contextlib.suppress(SystemExit):  # verify has found damage
                registry.load(registry.MODES[mode].code)(config, place)
    return output.buffer.getvalue()


def damage(chosen, whole, copy):
    """Copies a folder, one file of it damaged; the file's name, and how it was damaged."""
    names = sorted(x.relative_to(whole) for x in whole.rglob("*") if x.is_file())
    name = chosen.choice(names)
    content = (whole / name).read_bytes()
    ways = {
        "deleted": None,
        "empty": b"",
        "doubled": content + content,
        "another": (whole / chosen.choice(names)).read_bytes(),
        "json": chosen.choice((b"[]", b"{}", b"null", b'"x"', b"1e999", b'[{"a": []}]')),
    }
    way = chosen.choice([*ways, "bytes", "bytes", "bytes", "bytes"])
    shutil.copytree(whole, copy)
    (copy / name).unlink()
    if way != "deleted":
        (copy / name).write_bytes(ways[way] if way in ways else damaged(chosen, content))
    return name, way


def assert_survives(attempts, is_right=lambda what, answer: True):
    """Each of (what is damaged, a function that answers) is right, or refused in one line."""
    outcomes = collections.Counter()
    for what, ask in attempts:
        try:
            answered = ask()
        except Exception as error:  # launch.py answers each with one line, unless it is a bug
            refused = len(one_line(error).splitlines()) == 1
            outcomes["refused" if refused else f"{what}: {error!r}"] += 1
        else:
            outcomes["right" if is_right(what, answered) else f"{what}: {answered}"] += 1
    assert outcomes.keys() == {"right", "refused"}, outcomes
    assert min(outcomes.values()) > COPIES / 20, outcomes


def test_a_damaged_workdir(tiny_run, data_dir, tmp_path):
    whole, copy, chosen = tiny_run.workdir, tmp_path / "copy", random.Random(0)

    def ask(workdir, asked):
        mode, content, argument = ASKED[asked]
        data = f"--config.data.data_dir={data_dir}"
        return answer(mode, content, f"--workdir={workdir}", argument, data)

    right = {asked: ask(whole, asked) for asked in FIXED}
    config = json.loads((whole / "config.json").read_text())

    def attempts():
        for _ in range(COPIES):
            asked = chosen.choice([*FIXED, *ASKED])
            name, way = damage(chosen, whole, copy)
            yield (asked, name.as_posix(), way), lambda asked=asked: ask(copy, asked)
            shutil.rmtree(copy)

    def is_right(what, answered):
        # The config may be edited by hand: another value of it gives another answer.
        edited = what[1] == "config.json" and json.loads((copy / what[1]).read_text()) != config
        return edited or answered == right.get(what[0], answered)

    assert_survives(attempts(), is_right)


def test_a_damaged_foreign_model(tmp_path):
    """It has no checksums: some damage gives another model."""
    whole = pages.ROOT / "tests/tools/convert/fixtures/marian"
    folder, workdir, chosen = tmp_path / "folder", tmp_path / "workdir", random.Random(0)

    def attempts():
        for _ in range(COPIES):
            yield (
                damage(chosen, whole, folder),
                lambda: answer("import", "", str(folder), f"--workdir={workdir}"),
            )
            shutil.rmtree(folder)
            shutil.rmtree(workdir, ignore_errors=True)

    assert_survives(attempts())


def test_a_damaged_sweep_file(tmp_path):
    whole, _, _ = (pages.ROOT / "configs/sweeps/copy.toml").read_bytes().partition(b"[rows.rotary]")
    file, chosen = tmp_path / "rows.toml", random.Random(0)

    def attempts():
        for _ in range(COPIES):
            content = damaged(chosen, whole)
            file.write_bytes(content)
            yield content, lambda: sweep_file.read(file, tmp_path, ["--config.model.num_layers=1"])

    assert_survives(attempts())


def test_a_damaged_request():
    whole = json.dumps({"text": ["many words " * 20, "c"], "model": "b"}).encode()
    chosen = random.Random(0)

    def ask(service, body):
        status, answer = service.ask(body=body)
        if 400 <= status < 500:
            raise UserError(answer["error"])
        assert (status, len(answer["translations"])) == (200, 2)

    with serving() as service:
        bodies = [damaged(chosen, whole) for _ in range(COPIES)]
        assert_survives((body, lambda body=body: ask(service, body)) for body in bodies)
