"""Texts of a language model: those that --mode=generate writes to an empty prompt."""

import json

import pytest
from helpers import language, workdirs

from transformer.checkpoints import workdir
from transformer.modes import generate
from transformer.reports import texts
from transformer.tasks import trained

LETTERS = " abcdefgh"


@pytest.fixture
def folder(tmp_path):
    config = language.config(tmp_path, {"generate.num_samples": 3, "generate.format": "json"})
    folder = tmp_path / "run"
    workdir.write_config(config, folder)
    workdir.write_vocabulary(workdir.vocabulary_files(folder, config), [LETTERS.encode()])
    return folder


def test_they_are_what_generate_writes(folder, monkeypatch, capsysbinary):
    model = language.model(vocab_size=len(LETTERS) + 4)
    loaded = trained.Trained(model, language.parameters(model), [7], 7)
    monkeypatch.setattr(trained, "load", lambda *_: loaded)
    this = workdirs.load(folder)
    this.config.generate.max_tokens = 21
    step, samples = texts.sampled(this)
    (folder / "input").write_text('{"prompt": ""}\n')
    with open(folder / "input") as file:
        monkeypatch.setattr("sys.stdin", file)
        generate.generate(this.config, folder)
    assert json.loads(capsysbinary.readouterr().out)["continuations"] == samples
    assert step == 7
    about, markup = texts.section(this).parts
    assert "of step 7" in about
    assert markup.html.count("<p") == texts.SAMPLES


def test_without_a_checkpoint_it_says_so(folder):
    assert "checkpoint" in texts.section(workdirs.load(folder)).parts[0]


def test_another_task_has_none(tmp_path):
    assert texts.section(workdirs.load(workdirs.write(tmp_path / "run"))) is None
