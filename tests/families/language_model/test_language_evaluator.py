"""Perplexity per token and word, bits per character: by hand, and each token exactly once."""

import math

import jax
import numpy as np
import pytest
from families.language_model import language

from transformer.families.language_model import (
    continuations,
    language_evaluator,
    language_modelling,
)
from transformer.tasks import vocabularies


@pytest.fixture
def run(tmp_path):
    """(config, workdir, model) of a prepared run."""
    lines = language.write_text(tmp_path)
    config = language_modelling.prepare(language.config(tmp_path), tmp_path / "run", None)
    model = language_modelling.model(config, language_modelling.sizes(config, tmp_path / "run"))
    return config, tmp_path / "run", model, lines[48:]


def test_a_model_that_knows_nothing_has_a_perplexity_of_its_classes(run):
    config, folder, model, lines = run
    evaluator = language_modelling.evaluator(config, folder, model, "validation")
    assert evaluator.split == "validation"
    scores, _ = evaluator.score(jax.tree.map(np.zeros_like, language.parameters(model)))
    num_classes = len(vocabularies.read(folder, config))
    text = "".join(f"{line}\n" for line in lines)
    assert evaluator.settings == {
        **{"tokens": len(text), "characters": len(text), "words": len(text.split()), "unknown": 0}
    }
    nats = len(text) * math.log(num_classes)
    assert scores["perplexity"] == pytest.approx(num_classes, rel=1e-5)
    assert scores["nats_per_token"] == scores["loss"] == pytest.approx(math.log(num_classes))
    assert scores["word_perplexity"] == pytest.approx(math.exp(nats / len(text.split())), rel=1e-4)
    assert scores["bits_per_character"] == pytest.approx(math.log2(num_classes), rel=1e-5)
    assert next(iter(evaluator.rows(scores).values())).startswith(f"{num_classes:.3f} per token")
    assert evaluator.dataset == {"text": lines}


def test_every_token_is_scored_once_with_the_tokens_before_it_in_its_window(run):
    config, folder, model, lines = run
    evaluator = language_modelling.evaluator(config, folder, model, "validation")
    params, ids = language.parameters(model), []
    vocabulary = vocabularies.read(folder, config)
    for line in vocabulary.encode(lines):
        ids += line
    nats = []
    for start in range(0, len(ids), 12):
        targets = ids[start : start + 12]
        before = [*([ids[start - 1]] if start else [vocabulary.end]), *targets[:-1]]
        log_probs = jax.nn.log_softmax(language.logits(model, params, before))
        nats += [-float(log_probs[t, target]) for t, target in enumerate(targets)]
    scores, outputs = evaluator.score(params)
    assert scores["nats_per_token"] == pytest.approx(np.mean(nats), rel=1e-5)
    of_lines = iter(nats)
    expected = [sum(next(of_lines) for _ in f"{line}\n") for line in lines]
    assert list(map(float, outputs["nats"])) == pytest.approx(expected, rel=1e-5)
    evaluator.rehearse(params)


def test_unknown_characters_are_said_and_counted(run, tmp_path, caplog):
    config, folder, model, _ = run
    (tmp_path / "other.txt").write_text("the e\u0301at\n")
    config.data.validation = "other.txt"
    evaluator = language_modelling.evaluator(config, folder, model, "validation")
    assert evaluator.settings["unknown"] == 1
    assert "split validation: 1 character of 8 are unknown" in caplog.text


def test_words_are_between_white_space_and_line_breaks_are_characters():
    assert language_evaluator.counts(["a  bc ", "", "d"]) == {"words": 3, "characters": 10}


def test_samples_are_texts_without_a_prompt(run):
    config, folder, model, _ = run
    config.evaluate.samples, config.generate.max_tokens, config.generate.seed = 2, 7, 3
    params = language.parameters(model)
    sampled = lambda: language_modelling.evaluator(config, folder, model, "validation").score(
        params
    )[0]
    texts = language_evaluator.read_samples(sampled()["samples"])
    assert texts == continuations.unprompted(
        params,
        2,
        model=model,
        context=12,
        vocabulary=vocabularies.read(folder, config),
        **{key: config.generate[key] for key in continuations.SAMPLING},
    )
    assert [len(text) for text in texts] == [7, 7]
    config.evaluate.samples = 0
    assert sampled()["samples"] == ""


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["a\n\n  b\n", " ", "\n", "c"]])
def test_samples_are_read_as_they_were_formatted(texts):
    assert language_evaluator.read_samples(language_evaluator.format_samples(texts)) == texts
