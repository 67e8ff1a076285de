"""Masked pre-training: trained, and validated on the same masks."""

import json
import shutil

import numpy as np
import pytest
from families.texts import reviews
from helpers import corpora

from configs import masked_language as masked_language_defaults
from transformer.errors import UserError
from transformer.families.texts import masked_language
from transformer.modes import evaluate
from transformer.tasks import saved_model
from transformer.workdir import saved_config
from transformer.workdir.log import read


@pytest.fixture(scope="module")
def configure(folder):
    """A function of {config key: value}: a tiny config on the unlabelled text of the reviews."""
    files = {"data.train": "train.tsv", "data.validation": "validation.tsv", "data.labelled": True}
    steps = {"train.num_steps": 30, "evaluate.every": 15, "optimizer.schedule.decay_steps": 30}
    values = {**files, **steps, "vocabulary.kind": "bpe", "vocabulary.size": 300}
    return lambda **changes: reviews.config(
        folder, folder / "data", masked_language_defaults, **{**values, **changes}
    )


def scores(config, folder):
    run = saved_model.load(config, folder)
    return masked_language.evaluator(config, folder, run.model, "validation").score(run.params)[0]


@pytest.mark.slow
def test_a_run_learns_and_is_scored(trained, capsys):
    lines = read(trained)
    validations = [x for x in lines if x["kind"] == "validation"]
    assert [x["step"] for x in validations] == [15, 30]
    assert validations[1]["nats_per_token"] < validations[0]["nats_per_token"] < np.log(300)
    training = next(x for x in lines if x["kind"] == "train")
    assert {"loss", "perplexity", "masked_tokens_per_second"} <= training.keys()
    assert 0 <= training["padding"] < 0.6  # of the positions, not 85 %
    evaluate.evaluate(saved_config.read_config(trained), trained)
    said = json.loads(capsys.readouterr().out)
    assert (said["split"], said["texts"], said["mask_share"]) == ("validation", 40, 0.15)
    best = min(validations, key=lambda line: line["nats_per_token"])
    assert said["nats_per_token"] == pytest.approx(best["nats_per_token"], rel=1e-6)
    texts = (trained / "evaluation" / "validation.text").read_text().splitlines()
    assert len(texts) == 40
    assert not any("\t" in text for text in texts)  # the labels are not read


@pytest.mark.slow
@pytest.mark.parametrize("pack", [True, False])
def test_validation_masks_the_same_tokens_each_time(trained, pack):
    """Whatever the batches; other masks would give another loss."""
    config = saved_config.read_config(trained)
    config.data.pack = pack
    expected = scores(config, trained)
    config.data.batch_tokens = 200
    assert scores(config, trained) == pytest.approx(expected, rel=1e-5)


def test_plain_text_with_blank_lines(configure, folder, tmp_path):
    """A blank line has nothing to predict."""
    lines = [line.split("\t")[1] for line in (folder / "train.tsv").read_text().splitlines()]
    (tmp_path / "train.txt").write_text("\n\n".join(lines))
    shutil.copy(tmp_path / "train.txt", tmp_path / "validation.txt")
    names = {"data.train": "train.txt", "data.validation": "validation.txt"}
    config = configure(**names, **{"data.labelled": False, "data.directory": str(tmp_path)})
    config = masked_language.prepare(config, tmp_path / "run", None)
    assert len(masked_language.build(config, tmp_path / "run").batches.items) == len(lines)


def test_a_vocabulary_with_unknown_characters_is_refused(configure, tmp_path):
    """They would look like masked tokens."""
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": 3, "model_type": "char"}
    letters = [" ".join("abcdefghijklmnopqrstuvwxy")] * 9
    model = corpora.sentencepiece_model(letters, vocab_size=30, **options)
    (tmp_path / "own.model").write_bytes(model)
    config = configure(**{"vocabulary.model": str(tmp_path / "own.model")})
    message = r"^config\.vocabulary\.model='\S*own\.model' has no piece for some characters of "
    with pytest.raises(UserError, match=message + r"\S*train\.tsv"):
        masked_language.prepare(config, tmp_path / "run", None)
