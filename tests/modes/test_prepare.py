"""What a run prepares is built once, and rebuilt when its inputs have changed."""

import logging
import re
import types

import pytest
from helpers.command_line import TEXT

import launch
from transformer.data import vocabulary
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.tasks import splits, translation, vocabularies
from transformer.workdir import run_config


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
        config = run_config.read_config(run.workdir)
        vocabulary = vocabularies.read(run.workdir, config)
        return types.SimpleNamespace(config=config, vocabulary=vocabulary)

    def learn(*arguments, **options):
        run.learnt += 1
        return learns(*arguments, **options)

    learns = vocabulary.learn_pieces
    monkeypatch.setattr(vocabulary, "learn_pieces", learn)
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
    assert run_config.read_config(build.workdir).model.d_model == 64


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
    read = vocabularies.read(build.workdir, run_config.read_config(build.workdir))
    assert read.fingerprint == prepared.vocabulary.fingerprint


@pytest.mark.parametrize("name", ["config.json", "vocabulary/shared.model"])
def test_a_damaged_vocabulary_is_written_again(build, name):
    fingerprint = build().vocabulary.fingerprint
    with open(build.workdir / name, "r+b") as file:
        file.write(b"?")
    assert build().vocabulary.fingerprint == fingerprint
    assert build.learnt == 1


def test_a_new_run_takes_the_vocabulary_that_another_has_learnt(build, tmp_path):
    first = build()
    build.workdir = tmp_path / "second"
    second = build(**{"train.num_steps": 7})
    assert build.learnt == 1
    assert second.vocabulary.fingerprint == first.vocabulary.fingerprint
    models = [tmp_path / x / "vocabulary" / "shared.model" for x in ("run", "second")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_changed_training_text_is_said_with_its_files(build, tmp_path):
    made, now = build().config, build("the small dog sees a big cat").config
    with pytest.raises(UserError, match=r"run was trained on other data") as error:
        translation.prepare(now, build.workdir, made)
    message = str(error.value)
    assert f": {tmp_path / 'train.de'} or {tmp_path / 'train.en'} has changed since" in message
    assert "restore the old data, or give another --workdir" in message


def test_a_prepared_task_is_built_without_reading_its_training_text_again(build, monkeypatch):
    """Its files and their checksums take a second per GB."""
    config, read = build().config, []
    load = splits.pairs
    monkeypatch.setattr(splits, "pairs", lambda *asked: read.append(asked[1]) or load(*asked))
    task = translation.build(config, build.workdir)
    assert len(task.batches.items) == 4
    assert read == ["validation"]


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("architecture", "transformr", "transformer"),
        ("model.norm", "both", "'post', 'pre'"),
        (
            "model.positions",
            "sines",
            "'interleaved', 'concatenated', 'halves', 'learned', 'none', 'rotary'",
        ),
        ("model.positions", "shaw", "needs config.model.max_distance"),
        ("model.norm_kind", "batch", "'layer', 'rms', 'none'"),
        ("model.tied_embeddings", "some", "'all', 'target', 'none'"),
        ("model.activation", "tanh", "'relu', 'gelu'"),
        ("model.dtype", "float8", "'float32', 'bfloat16'"),
        ("loss.smoothed_over", "none", "'all_classes', 'wrong_classes'"),
        ("parallel.strategy", "vmap", "'pmap', 'jit'"),
        ("evaluate.weights", "bets", "'average', 'best', 'latest'"),
        ("evaluate.tokenize", "14a", "13a"),
        ("vocabulary.kind", "word", "'bpe', 'unigram'"),
        ("model.num_heads", 3, "config.model.d_model=256"),
        ("model.num_heads", 0, "at least 1"),
        ("model.d_model", 0, "even and at least 4"),
        ("model.dropout_rate", 1.0, "below 1"),
        ("loss.label_smoothing", -0.1, "at least 0"),
        ("model.key_size", -1, "at least 0"),
        ("model.value_size", -1, "at least 0"),
        ("model.norm_epsilon", -1e-6, "at least 0"),
        (
            "optimizer.schedule.factor",
            float("nan"),
            "config.optimizer.schedule.factor must be a finite number",
        ),
        (
            "optimizer.schedule.factor",
            1e39,
            "config.optimizer.schedule.factor must be a finite number",
        ),
        ("optimizer.schedule.factor", -1.0, "above 0"),
        ("vocabulary.normalisation", "nfd", "'nfc', ''"),
        ("vocabulary.size", -5, "at least 1 and at most"),
        ("vocabulary.size", 0, "at least 1 and at most"),
        ("vocabulary.size", 10**11, "at least 1 and at most"),
        ("optimizer.arguments.b1", 1.0, "below 1"),
        ("optimizer.arguments.b2", -0.1, "below 1"),
        ("optimizer.arguments.eps", 0.0, "above 0"),
        ("optimizer.clip_norm", -1.0, "at least 0"),
        ("optimizer.clip_norm", float("inf"), "config.optimizer.clip_norm must be a finite"),
        ("model.dropout_rate", float("nan"), "config.model.dropout_rate must be a finite number"),
        ("evaluate.every", -1, "at least 0"),
        ("data.max_length", 129, "config.data.row_length=128"),
        ("data.batch_tokens", 127, "config.data.row_length=128"),
        ("data.corpus", "paralel_text", "parallel_text"),
        ("data.source_language", "de", "has test.en, test.ko, train.en"),
        ("evaluate.split", "tset", "has test.en, test.ko, train.en"),
        ("evaluate.samples", -1, "at least 0"),
        ("evaluate.ensemble", "/nonexistent", "holds no config.json"),
        ("vocabulary.shared", False, "config.vocabulary.shared=True"),
        ("vocabulary.model", "no/where", "does not exist"),
        ("train.num_steps", 0, "at least 1"),
        ("train.accumulate", 0, "at least 1"),
        ("loss.blocks", 0, "at least 1"),
        ("decode.max_length", 1, "at least 16"),
        ("decode.beam_width", 0, "at least 1"),
        ("decode.length_penalty", "gmnt", "'gnmt', 'power', 'none'"),
        ("decode.length_alpha", -1.0, "at least 0"),
        ("model.positions", "learned", "config.model.max_positions=0"),
    ],
)
def test_a_value_that_cannot_work(key, value, right, tmp_path, data_dir, text_dir, monkeypatch):
    """Said before anything is compiled, and no workdir is left behind."""
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    workdir = tmp_path / "run"
    with pytest.raises(ValueError) as error:  # noqa: PT011 (looked at below)
        launch.main(
            [
                *(TEXT, f"--workdir={workdir}", f"--config.data.data_dir={data_dir}"),
                f"--config.data.directory={text_dir}",
                "--config.data.target_language=en",
                f"--config.{key}={value}",
            ]
        )
    said = str(error.value)
    assert launch.user_error_line(error.value)
    assert "\n" not in said
    assert right in said
    assert str(value) in said or value is False
    assert not workdir.exists()


def test_prepare_ends_with_a_summary(tiny_config, data_dir, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    prepare.prepare(tiny_config(), tmp_path)
    *_, ids, said = caplog.messages
    assert re.fullmatch(rf"token ids are in {data_dir}/.*", ids)
    pattern = r"prepared: 2,000 training pairs in batches of .*; vocabulary of 293 pieces; \d+ bat"
    assert re.fullmatch(rf"{pattern}ches an epoch; config and vocabulary are in {tmp_path}", said)
