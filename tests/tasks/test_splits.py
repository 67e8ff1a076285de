"""Which split is scored at the end, missing text, and sentences beyond a model's positions."""

import types

import pytest
from helpers import corpora
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tasks import splits


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data.test": ""}, "validation"),
        ({"evaluate.split": ""}, "validation"),
        ({"evaluate.split": "test"}, "test"),
        ({"evaluate.split": "other"}, "other"),  # of the corpus, without a key of its own
        ({"evaluate.split": "views"}, "views"),  # also the name of another key, which is empty
    ],
)
def test_the_final_split_is_the_one_asked_for_or_validation(tiny_config, changes, expected):
    assert splits.final_split(tiny_config(changes)) == expected


def test_every_sentence_of_a_split_is_evaluated_or_none(tiny_config, tmp_path):
    """However long, but not beyond the model's positions."""
    config, corpus = tiny_config({"data.data_dir": str(tmp_path)}), corpora.Source(0, longest=40)
    vocabulary = tokenizer.Vocabulary(corpora.learn(0), corpora.learn(1))

    def lengths(**fields):
        model = types.SimpleNamespace(**fields)
        return splits.evaluation_tokens(config, corpus, vocabulary, "test", model).lengths

    source_lengths, target_lengths = lengths()
    assert len(source_lengths) == len(target_lengths) == len(corpus)
    longest = int(max(source_lengths.max(), target_lengths.max()))
    assert longest > config.data.row_length
    assert len(lengths(position_limit=longest)[0]) == len(corpus)
    expected = rf"max_positions={longest - 1} .* than the {longest} pieces .* split 'test'"
    with pytest.raises(UserError, match=expected):
        lengths(position_limit=longest - 1)


def test_a_resumed_run_has_the_text_that_its_config_knows_if_any(tiny_config, tmp_path):
    config, train = tiny_config({}), corpora.Source(0)
    for saved in ({}, {"fingerprint": ""}, {"fingerprint": train.fingerprint}):
        splits.fill_in_fingerprint(config, tmp_path, ConfigDict({"data": saved}), train)
        assert config.data.fingerprint == train.fingerprint
    other = ConfigDict({"data": {"fingerprint": "another"}})
    train.files = ()
    with pytest.raises(UserError, match="was trained on other data: parallel_text has changed"):
        splits.fill_in_fingerprint(config, tmp_path, other, train)


def test_a_split_of_plain_text_is_what_its_key_names(tmp_path):
    (tmp_path / "all.txt").write_text("".join(f"{i}\n" for i in range(10)))
    data = {"train": "all.txt[:90%]", "validation": "all.txt[90%:]", "test": "gone.txt"}
    data |= {"directory": str(tmp_path), "data_dir": str(tmp_path / "data")}
    config = ConfigDict({"data": data})
    assert splits.text(config, "train").read() == (list("012345678"),)
    assert splits.text(config, "validation").read() == (["9"],)
    with pytest.raises(UserError, match=r"\Aconfig\.data\.test='gone\.txt': expected .* no test"):
        splits.text(config, "test")
    with pytest.raises(UserError, match=r"\Aconfig\.evaluate\.split='other': expected one of "):
        splits.text(config, "other")
    assert len(splits.text(config, "all.txt")) == 10
