"""Texts of a language model: those that --mode=generate writes to an empty prompt."""

import json

import pytest
from families.language_model import language
from tools.pages import workdirs

from transformer.families.language_model import generate
from transformer.tasks import saved_model, vocabularies
from transformer.tools.report import sampled_texts
from transformer.workdir import saved_config

LETTERS = " abcdefgh"


@pytest.fixture
def folder(tmp_path):
    config = language.config(tmp_path, {"generate.num_samples": 3, "generate.format": "json"})
    folder = tmp_path / "run"
    saved_config.write_config(config, folder)
    vocabularies.write(folder, config, {"text.characters": LETTERS.encode()})
    return folder


def test_they_are_what_generate_writes(folder, monkeypatch, capsysbinary):
    model = language.model(vocab_size=len(LETTERS) + 4)
    loaded = saved_model.SavedModel(model, language.parameters(model), [7], 7)
    monkeypatch.setattr(saved_model, "load", lambda *_: loaded)
    run = workdirs.load(folder)
    run.config.generate.max_tokens = 21
    step, samples = sampled_texts.sampled(run)
    (folder / "input").write_text('{"prompt": ""}\n')
    with open(folder / "input") as file:
        monkeypatch.setattr("sys.stdin", file)
        generate.generate(run.config, folder)
    assert json.loads(capsysbinary.readouterr().out)["continuations"] == samples
    assert step == 7
    about, markup = sampled_texts.section(run).parts
    assert "of step 7" in about
    assert markup.html.count("<p") == sampled_texts.SAMPLES
