"""Texts of a language model: those that --mode=generate writes to an empty prompt."""

import json
import re

import pytest
from families.language_model import language
from markupsafe import escape
from tools.pages import workdirs
from tools.pages.workdirs import HOSTILE

from transformer.families.language_model import generate, language_evaluator
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


def test_what_is_missing_is_said(folder, tmp_path):
    run = workdirs.load(folder)
    assert "holds no complete checkpoint" in sampled_texts.section(run).parts[0]
    assert "--config.evaluate.samples=2" in sampled_texts.samples(run).parts[0]
    translation = workdirs.load(workdirs.write(tmp_path / "translation"))
    assert sampled_texts.section(translation) is sampled_texts.samples(translation) is None


def test_texts_are_shown_as_they_were_logged(folder):
    """Of at most ten validations, the last included."""
    samples = lambda n: language_evaluator.format_samples([f"at\n\n{n}", HOSTILE])
    lines = [{"kind": "validation", "step": 100 * n, "samples": samples(n)} for n in range(1, 21)]
    run = workdirs.load(folder)._replace(lines=lines)
    _, markup = sampled_texts.samples(run).parts
    steps = re.findall(r"<h3>step ([\d,]+)</h3>", markup.html)
    assert len(steps) == 10
    assert (steps[0], steps[-1]) == ("100", "2,000")
    shown = re.findall(r'auto">(.*?)</p>', markup.html, re.DOTALL)
    assert shown[-2:] == ["at\n\n20", escape(HOSTILE)]
