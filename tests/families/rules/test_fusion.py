"""Shallow fusion: the scores of a search against both models' own logits; what can be fused."""

import jax
import numpy as np
import pytest
from families.language_model import language
from helpers import decoders, tiny

from transformer.data import pairs
from transformer.data.tokenizer import END, START
from transformer.decoding.batch_decoder import Part
from transformer.errors import UserError
from transformer.families.rules.fusion import Fused
from transformer.modes import prepare, train
from transformer.tasks import translation

WEIGHT = 0.7
SOURCES = [(5, END), (6, 7, 8, 5, END), (9, 5, 6, 6, 7, 8, 9, END)]


def test_a_search_has_the_scores_of_both_models(untrained):
    model, params = untrained
    of_language = language.model(vocab_size=model.target_vocab_size, positions="interleaved")
    params = {"translation": params, "language": language.parameters(of_language, seed=3)}
    decoder = decoders.make_batch_decoder(Fused(model, of_language, WEIGHT), num_hypotheses=3)
    for ids, found in zip(SOURCES, decoder(params, [Part(x) for x in SOURCES]), strict=True):
        assert len(found) == 3
        for target, score in found:
            target = [*target, END]
            inputs = pairs.inputs_of_single_pairs(*(np.array([x]) for x in (ids, target)))
            begun = np.where(inputs["target"] == START, END, inputs["target"])
            view = {name: inputs[f"target_{name}"] for name in ("positions", "segments")}
            logits = tiny.logits(model, params["translation"], inputs)
            logits = jax.nn.log_softmax(logits) + WEIGHT * jax.nn.log_softmax(
                tiny.logits(of_language, params["language"], {"tokens": begun, **view})
            )
            log_prob = float(jax.nn.log_softmax(logits)[0, np.arange(len(target)), target].sum())
            assert score == pytest.approx(log_prob / ((5 + len(target)) / 6) ** 0.6, abs=1e-4)


def test_a_language_model_that_is_not_there_is_said_before_training(tiny_config, tmp_path):
    with pytest.raises(UserError, match=r"gone/config.json does not exist: expected the folder"):
        translation.check(tiny_config({"decode.language_model": str(tmp_path / "gone")}))


@pytest.mark.slow
def test_a_language_model_is_of_the_target_s_pieces(tiny_run, tmp_path, answered):
    pieces = {"vocabulary.kind": "bpe", "vocabulary.size": 293}
    pieces["vocabulary.model"] = str(tiny_run.workdir / "vocabulary" / "shared.model")
    language.write_text(tmp_path)
    positions = {"model.positions": "interleaved", "train.num_steps": 1}
    train.train(language.config(tmp_path, pieces | positions), tmp_path / "right")
    prepare.prepare(language.config(tmp_path, positions), tmp_path / "other")
    text = "가 나 다\n라 마\n".encode()
    answered("translate", tiny_run.workdir, b"")  # takes what training has printed
    alone, outputs = answered("translate", tiny_run.workdir, text), {}
    for weight in (0.0, 9.0):
        keys = {"decode.language_model": str(tmp_path / "right")}
        keys["decode.language_model_weight"] = weight
        outputs[weight] = answered("translate", tiny_run.workdir, text, **keys)
    assert outputs[0.0] == alone != outputs[9.0]
    for folder, said in (
        (tmp_path / "other", r"other' has other pieces: train it with --config.vocabulary.model="),
        (tiny_run.workdir, r"must be of the task 'language_modelling', found 'translation'"),
        (tmp_path / "none", r"none/config.json does not exist"),
    ):
        with pytest.raises(UserError, match=said):
            answered("translate", tiny_run.workdir, text, **{"decode.language_model": str(folder)})
