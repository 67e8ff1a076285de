"""Texts of a language model: those that --mode=generate writes to an empty prompt."""

import json

from families.language_model import language
from tools.pages import workdirs

from transformer.tools.report import sampled_texts


def test_they_are_what_generate_writes(tmp_path, monkeypatch, answered):
    folder = tmp_path / "run"
    changes = {"generate.num_samples": 3, "generate.format": "json"}
    language.write_run(folder, monkeypatch, language.config(tmp_path, changes))
    run = workdirs.load(folder)
    run.config.generate.max_tokens = 21
    step, samples = sampled_texts.sampled(run)
    written = answered("generate", folder, b'{"prompt": ""}\n', **{"generate.max_tokens": 21})
    assert json.loads(written)["continuations"] == samples
    assert step == 7
    about, markup = sampled_texts.section(run).parts
    assert "of step 7" in about
    assert markup.html.count("<p") == sampled_texts.SAMPLES
