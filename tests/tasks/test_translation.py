"""What the translation task refuses before training, and what it loads of a trained workdir."""

import shutil
import sys

import pytest
from helpers import reversal

from transformer import registry
from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tasks import translation
from transformer.workdir import saved_config


@pytest.mark.parametrize(("pack", "max_length", "row_length"), [(True, 48, 64), (False, 64, 48)])
def test_every_position_of_a_training_sentence_is_learned(
    tiny_config, pack, max_length, row_length
):
    """Positions restart in each sentence of a packed row; a row of one pair may be longer."""
    values = {"data.pack": pack, "data.max_length": max_length, "data.row_length": row_length}
    values |= {"model.positions": "learned", "decode.max_length": 16}
    translation.check(tiny_config({**values, "model.max_positions": max_length}))
    few = max_length - 1
    expected = (
        rf"config\.model\.max_positions={few} .* fewer than config\.data\.max_length={max_length}"
    )
    with pytest.raises(UserError, match=expected):
        translation.check(tiny_config({**values, "model.max_positions": few}))


def test_blocks_of_logits_need_a_model_with_hidden_states(tiny_config, monkeypatch):
    monkeypatch.setitem(registry.MODELS, "mixer", "helpers.mixer:Mixer")
    config = tiny_config({"architecture": "mixer", "loss.blocks": 1})
    config.model = {"width": 16}
    translation.check(config)
    config.loss.blocks = 2
    with pytest.raises(UserError, match=r"^config\.loss\.blocks=2: Mixer has no methods `hidden`"):
        translation.check(config)


def test_a_tokeniser_without_its_package_says_what_to_install(tiny_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    expected = r"\Aconfig\.evaluate\.tokenize='ko-mecab' .*needs pip install sacrebleu\[ko\]\Z"
    with pytest.raises(UserError, match=expected):
        translation.check(tiny_config({"evaluate.tokenize": "ko-mecab"}))


# Loading


def copied(workdir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(workdir, copy)
    return copy


def test_another_vocabulary_is_refused(reversal_run, tmp_path):
    copy = copied(reversal_run, tmp_path)
    text = [line.replace("a", "z") for line in reversal.sentences(500, seed=0)]
    size = len(reversal.vocabulary().source)
    other = tokenizer.learn_pieces(text, size=size, kind="bpe", character_coverage=1.0)
    (copy / "vocabulary" / "shared.model").write_bytes(other)
    with pytest.raises(ValueError, match=r"\A.*vocabulary.*\Z") as error:
        translation.load(saved_config.read_config(copy), copy)
    assert reversal.vocabulary().fingerprint in str(error.value)
    assert tokenizer.load(other, "other").fingerprint in str(error.value)
    assert str(copy / "vocabulary") in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "vocabulary/shared.model", "checkpoints"])
def test_what_a_workdir_lacks_is_named(reversal_run, tmp_path, name):
    copy = copied(reversal_run, tmp_path)
    shutil.rmtree(copy / name) if (copy / name).is_dir() else (copy / name).unlink()
    with pytest.raises(UserError, match=rf"\A.*{name}.*\Z") as error:  # one line
        translation.load(saved_config.read_config(copy), copy)
    assert str(copy) in str(error.value)
