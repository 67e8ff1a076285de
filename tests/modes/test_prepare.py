"""What a run prepares is built once, and rebuilt when its inputs have changed."""

import types

import pytest

from transformer.checkpoints import workdir
from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.tasks import splits, translation


@pytest.fixture
def build(tiny_config, tmp_path, monkeypatch):
    """A function that prepares a run on a few lines of text; `learnt` counts its vocabularies."""

    def run(text="the small dog sees a big house", **changes):
        for split in ("train", "validation", "test"):
            for language, word in (("de", "der kleine Hund sieht ein Haus"), ("en", text)):
                (tmp_path / f"{split}.{language}").write_text(f"{word}\n" * 3 + "b c d\n")
        values = {"data.corpus": "parallel_text", "data.directory": str(tmp_path)}
        values |= {"data.source_language": "de", "data.target_language": "en"}
        values |= {"data.train": "train", "data.validation": "validation", "data.test": "test"}
        values |= {"vocabulary.size": 290, "data.data_dir": str(tmp_path / "data")}
        prepare.prepare(tiny_config({**values, **changes}), run.workdir)
        config = workdir.read_config(run.workdir)
        vocabulary = workdir.read_vocabulary(run.workdir, config)
        return types.SimpleNamespace(config=config, vocabulary=vocabulary)

    def learn(*arguments, **options):
        run.learnt += 1
        return learns(*arguments, **options)

    learns = tokenizer.learn
    monkeypatch.setattr(tokenizer, "learn", learn)
    run.workdir, run.learnt = tmp_path / "run", 0
    return run


def test_a_vocabulary_that_was_prepared_is_not_learnt_again(build):
    prepared = build()
    again = build(**{"train.num_steps": 7, "model.d_model": 64})
    assert build.learnt == 1
    assert again.vocabulary.fingerprint == prepared.vocabulary.fingerprint
    assert again.config.vocabulary == prepared.config.vocabulary
    assert workdir.read_config(build.workdir).model.d_model == 64


@pytest.mark.parametrize(
    "changes",
    [
        {"vocabulary.size": 292},
        {"vocabulary.kind": "unigram", "vocabulary.size": 285},
        {"vocabulary.character_coverage": 0.98},
        {"vocabulary.shared": False, "model.tied_embeddings": "none"},
        {"vocabulary.max_sentences": 2},
        {"train.seed": 1},
        {"text": "the small dog sees a big cat"},
    ],
    ids=str,
)
def test_other_text_or_settings_learn_another_vocabulary(build, changes):
    build()
    prepared = build(**changes)
    assert build.learnt == (1 if prepared.vocabulary.shared else 2) + 1
    read = workdir.read_vocabulary(build.workdir, workdir.read_config(build.workdir))
    assert read.fingerprint == prepared.vocabulary.fingerprint


@pytest.mark.parametrize("name", ["config.json", "vocabulary/shared.model"])
def test_a_damaged_vocabulary_is_learnt_again(build, name):
    fingerprint = build().vocabulary.fingerprint
    with open(build.workdir / name, "r+b") as file:
        file.write(b"?")
    assert build().vocabulary.fingerprint == fingerprint
    assert build.learnt == 2


def test_changed_training_text_is_said_with_its_files(build, tmp_path):
    made, now = build().config, build("the small dog sees a big cat").config
    with pytest.raises(UserError, match=r"run was trained on different text") as error:
        translation.prepare(now, build.workdir, made)
    message = str(error.value)
    assert f"the text of {tmp_path / 'train.de'} or {tmp_path / 'train.en'} has changed" in message
    assert "restore the old text, or give another --workdir" in message


def test_a_prepared_task_is_built_without_reading_its_training_text_again(build, monkeypatch):
    """Its files and their checksums take a second per GB."""
    config, read = build().config, []
    load = splits.pairs
    monkeypatch.setattr(splits, "pairs", lambda *asked: read.append(asked[1]) or load(*asked))
    task = translation.build(config, build.workdir)
    assert len(task.batches.items) == 4
    assert read == ["validation"]
