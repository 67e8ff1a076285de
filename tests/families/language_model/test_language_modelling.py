"""The language modelling task: its checks, batches, training, resuming, devices."""

import pytest
from families.language_model import language

from transformer.errors import UserError
from transformer.families.language_model import language_modelling
from transformer.families.language_model.language_model import LanguageModel
from transformer.modes import prepare


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocabulary.model": "a.model"}, "vocabulary.model=a.model: exp"),
        ({"data.batch_tokens": 11}, "data.batch_tokens must be at least 12, found 11"),
        ({"evaluate.batch_tokens": 11}, "evaluate.batch_tokens must be at least 12, found 11"),
        ({"model.max_positions": 11}, "model.max_positions=11 learned positions are fewer"),
        ({"data.train": "gone.txt"}, "data.train='gone.txt': expected one of"),
        ({"data.train": "all.txt[:1%]"}, r".*'all.txt\[:1%\]' is empty"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path, changes, words):
    language.write_text(tmp_path)
    with pytest.raises(UserError, match=rf"\A(config\.)?{words}"):
        prepare.prepare(language.config(tmp_path, changes), tmp_path / "run")


def test_a_model_that_cannot_be_decoded_is_one_line(tmp_path, monkeypatch):
    """Before anything is compiled; without samples it can be trained."""
    monkeypatch.delattr(LanguageModel, "encode")
    line = r"\ALanguageModel cannot be decoded without the methods encode, .*; or set config.evalu"
    with pytest.raises(UserError, match=line):
        prepare.check(language.config(tmp_path, {"evaluate.samples": 1}))
    prepare.check(language.config(tmp_path, {"evaluate.samples": 0}))


def test_an_epoch_has_most_of_the_text(tmp_path):
    lines = language.write_text(tmp_path)
    config = language.config(tmp_path)
    task = prepare.prepare(config, tmp_path / "run")
    num_tokens = sum(len(line) + 1 for line in lines[:48])
    total = sum(task.batches[t]["weights"].sum() for t in range(len(task.batches)))
    assert total == -(-num_tokens // 12) * 12
    assert f"{num_tokens:,} training tokens" in task.about
    assert (task.best_by, task.best_is) == ("nats_per_token", "lowest")
    assert language_modelling.sizes(config, None) == {"vocab_size": 18}
