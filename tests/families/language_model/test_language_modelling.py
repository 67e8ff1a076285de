"""The language modelling task: its checks, batches, training, resuming, devices."""

import json

import pytest
from families.language_model import language
from helpers import tiny
from helpers.runs import newest, without_times

from transformer.errors import UserError
from transformer.families.language_model import language_modelling
from transformer.families.language_model.language_model import LanguageModel
from transformer.modes import prepare, train
from transformer.workdir import saved_config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocabulary.model": "a.model"}, "vocabulary.model=a.model: exp"),
        ({"data.batch_tokens": 11}, "data.batch_tokens=11 is less than one row"),
        ({"evaluate.batch_tokens": 11}, "evaluate.batch_tokens=11 is less than one row"),
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
    saved = saved_config.read_config(tmp_path / "run")
    assert task.identity == {"vocabulary": saved.vocabulary.fingerprint} != {"vocabulary": ""}
    assert language_modelling.sizes(config, None) == {"vocab_size": 18}


def trained(folder, workdir, **changes):
    """Trains in a workdir; the newest step and its params, and the log but for times."""
    values = {key.replace("__", "."): x for key, x in changes.items()}
    config = language.config(folder, values)
    train.train(config.copy_and_resolve_references(), workdir)
    return newest(workdir), without_times(workdir)


@pytest.mark.slow
def test_a_run_learns_keeps_its_best_and_is_resumed_to_the_bit(tmp_path, capsys):
    language.write_text(tmp_path, count=400)
    (_, params), whole = trained(tmp_path, tmp_path / "whole")
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    nats = {x["step"]: x["nats_per_token"] for x in whole if x["kind"] == "validation"}
    assert list(nats) == [3, 6, 9, 12]
    assert nats[12] < nats[3]
    best = min(nats, key=nats.get)
    assert (result["step"], result["nats_per_token"]) == (best, pytest.approx(nats[best]))
    assert [path.name for path in (tmp_path / "whole" / "best").iterdir()] == [str(best)]
    trained(tmp_path, tmp_path / "parts", train__num_steps=6)
    (step, same), parts = trained(tmp_path, tmp_path / "parts")
    assert step == 12
    tiny.assert_same_bits(same, params)
    in_training = lambda log: [x for x in log if x["kind"] in ("train", "validation")]
    assert in_training(parts) == in_training(whole)
