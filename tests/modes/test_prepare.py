"""What a run prepares is built once, and rebuilt when its inputs have changed."""

import logging
import re
import types

import pytest
from helpers.command_line import TEXT

import launch
from transformer.data import tokenizer
from transformer.modes import prepare
from transformer.tasks import splits, translation, vocabularies
from transformer.workdir import saved_config


@pytest.fixture
def build(tiny_config, tmp_path, monkeypatch):
    """A function that prepares a run on a few lines of text; `learnt` counts its vocabularies."""

    def run(text="the small dog sees a big house", **changes):
        for split in ("train", "validation", "test"):
            for language, word in (("de", "der kleine Hund sieht ein Haus"), ("en", text)):
                (tmp_path / f"{split}.{language}").write_text(f"{word}\n" * 3 + "b c d\n")
        values = {"data.directory": str(tmp_path), "data.data_dir": str(tmp_path / "data")}
        values |= {"data.source_language": "de", "data.target_language": "en"}
        values["vocabulary.size"] = 290
        prepare.prepare(tiny_config({**values, **changes}), run.workdir)
        config = saved_config.read_config(run.workdir)
        vocabulary = vocabularies.read(run.workdir, config)
        return types.SimpleNamespace(config=config, vocabulary=vocabulary)

    def learn(*arguments, **options):
        run.learnt += 1
        return learns(*arguments, **options)

    learns = tokenizer.learn_pieces
    monkeypatch.setattr(tokenizer, "learn_pieces", learn)
    run.workdir, run.learnt = tmp_path / "run", 0
    return run


def test_the_other_language_is_read_off_the_folder(build):
    """It is filled in; preparing again, as when resuming, may leave both out."""
    assert build(**{"data.source_language": ""}).config.data.source_language == "de"
    again = build(**{"data.source_language": "", "data.target_language": "en"})
    assert again.config.data.source_language == "de"


def test_a_vocabulary_that_was_prepared_is_not_learnt_again(build):
    prepared = build()
    again = build(**{"train.num_steps": 7, "model.d_model": 64})
    assert build.learnt == 1
    assert again.vocabulary.fingerprint == prepared.vocabulary.fingerprint
    assert again.config.vocabulary == prepared.config.vocabulary
    assert saved_config.read_config(build.workdir).model.d_model == 64


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
    read = vocabularies.read(build.workdir, saved_config.read_config(build.workdir))
    assert read.fingerprint == prepared.vocabulary.fingerprint


@pytest.mark.parametrize("name", ["config.json", "vocabulary/shared.model"])
def test_a_damaged_vocabulary_is_written_again(build, name):
    fingerprint = build().vocabulary.fingerprint
    with open(build.workdir / name, "r+b") as file:
        file.write(b"?")
    assert build().vocabulary.fingerprint == fingerprint
    assert build.learnt == 2


def test_a_prepared_task_is_built_without_reading_its_training_text_again(build, monkeypatch):
    """Its files and their checksums take a second per GB."""
    config, read = build().config, []
    load = splits.pairs
    monkeypatch.setattr(splits, "pairs", lambda *asked: read.append(asked[1]) or load(*asked))
    assert len(translation.build(config, build.workdir).batches.items) == 4
    assert read == ["validation"]


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("architecture", "transformr", "transformer"),
        ("model.num_heads", 3, "config.model.d_model=256"),
        ("data.max_length", 129, "must be at most 128"),
        ("data.batch_tokens", 127, "must be at least 128"),
        ("data.corpus", "paralel_text", "parallel_text"),
        ("data.data_dir", "gs://bucket/data", "must be a local folder"),
        ("data.source_language", "de", "has test.en, test.ko, train.en"),
        ("evaluate.split", "tset", "has test.en, test.ko, train.en"),
        ("data.test", "nothere", "('' for no test set), found none"),
        ("evaluate.references", "nothere", "found none; "),
        ("evaluate.references", "train.en", "has 2000 lines and the split 'test' has 60: line i"),
        ("evaluate.scores", "words", "must be one of "),
        ("evaluate.ensemble", "/nonexistent", "/nonexistent/config.json does not exist"),
        ("train.init_from", "/nonexistent", "/nonexistent/best holds no complete checkpoint"),
        ("vocabulary.shared", False, "config.vocabulary.shared=True"),
        ("vocabulary.model", "no/where", "model=no/where: expected WORKDIR"),
        ("model.positions", "learned", "config.model.max_positions=0"),
    ],
)
def test_a_value_that_cannot_work(key, value, right, tmp_path, data_dir, text_dir, monkeypatch):
    """Said before anything is compiled or written."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    workdir = tmp_path / "run"
    with pytest.raises(ValueError) as error:  # noqa: PT011 (looked at below)
        launch.main(
            [
                *(TEXT, f"--workdir={workdir}", f"--config.data.data_dir={data_dir}"),
                f"--config.data.directory={text_dir}",
                *("--config.data.target_language=en", "--config.model.num_layers=1"),
                f"--config.{key}={value}",
            ]
        )
    said = str(error.value)
    assert launch.one_line(error.value)
    assert "\n" not in said
    assert right in said
    assert str(value) in said or value is False
    assert not (workdir / "config.json").exists()


def test_prepare_ends_with_a_summary(tiny_config, data_dir, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    prepare.prepare(tiny_config(), tmp_path)
    *_, origin, said = caplog.messages
    assert origin.endswith(f"config.data.data_dir={str(data_dir)!r}")
    pattern = r"prepared: 2,000 training pairs in batches of .*; vocabulary of 293 pieces; \d+ bat"
    assert re.fullmatch(rf"{pattern}ches an epoch; config and vocabulary are in {tmp_path}", said)
