"""--mode=import: a workdir made of a foreign model, which the other modes take as a run's."""

import json
import pathlib
import shutil

import pytest

from transformer.errors import UserError
from transformer.modes import command_line, prepare
from transformer.tasks import translation
from transformer.tools.convert import import_model as import_model_mode
from transformer.tools.convert.import_model import import_model
from transformer.workdir import config_files, saved_config

RECORDED = pathlib.Path(__file__).parent / "fixtures" / "marian"


def imported(folder, target):
    import_model(config_files.default_config("translation"), (folder, target))
    return saved_config.read_config(target)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported") / "run"
    config = imported(RECORDED, folder)
    return config, folder, translation.load(config, folder)


def test_a_workdir_is_loaded_like_a_run_s(run):
    config, folder, loaded = run
    assert loaded.model.options.positions == "halves"
    assert config.decode.length_penalty == "power"
    assert loaded.vocabulary.fingerprint == config.vocabulary.fingerprint
    assert loaded.steps == [0]
    assert len(loaded.vocabulary.source) == loaded.model.source_vocab_size
    assert (folder / "vocabulary" / "checksums.json").is_file()


def test_a_folder_in_use_or_a_missing_model_is_refused(run, tmp_path):
    with pytest.raises(UserError, match="must be a new or empty folder"):
        imported(RECORDED, run[1])
    with pytest.raises(UserError, match=r"nowhere/config.json: only Hugging Face.*no such file"):
        imported(tmp_path / "nowhere", tmp_path / "new")
    bad = shutil.copytree(RECORDED, tmp_path / "bad")
    (bad / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"neither model.safetensors"):
        imported(bad, tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["bad"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "t5"}, r"only .*marian, and what.*can be imported, found 't5'"),
        ({"model_type": None}, r"only .*marian, and what.*can be imported, found None"),
        ({"d_model": 2**40}, r"config.model.d_model must be below 2\^31, found 1099511627776"),
        ({"encoder_layers": 0}, r"config.model.num_layers must be at least 1, found 0"),
        ({"activation_function": "tanh"}, r"config.model.feed_forward must be one of .* 'tanh'"),
        ({"dropout": 1.5}, r"config.model.dropout_rate must be at least 0 and below 1, found 1.5"),
        ({"num_beams": 0}, r"config.decode.beam_width must be at least 1, found 0"),
    ],
)
def test_a_model_that_cannot_be_had_here_is_said_in_our_keys(tmp_path, changes, said):
    folder = shutil.copytree(RECORDED, tmp_path / "model")
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))
    with pytest.raises(UserError, match=said):
        imported(folder, tmp_path / "new")


def test_a_failed_import_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch):
    save = import_model_mode.save

    def fail(*arguments):
        save(*arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(import_model_mode, "save", fail)
    with pytest.raises(ZeroDivisionError):
        imported(RECORDED, tmp_path / "run")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    (tmp_path / "run").mkdir()
    imported(RECORDED, tmp_path / "run")
    assert (tmp_path / "run" / "best" / "0").is_dir()


@pytest.mark.parametrize(
    ("target", "flags", "expected"),
    [("deu", [], ("eng", "deu")), (None, ["--config.data.source_language=en"], ("en", "target"))],
)
def test_its_text_is_parallel_text_of_given_languages_or_the_model_s(
    tmp_path, target, flags, expected
):
    folder, workdir = shutil.copytree(RECORDED, tmp_path / "named"), f"--workdir={tmp_path / 'run'}"
    named = json.dumps({"source_lang": "eng", "target_lang": target})
    (folder / "tokenizer_config.json").write_text(named)
    _, folders, config = command_line.parse(["--mode=import", str(folder), workdir, *flags])
    import_model(config, folders)
    _, _, config = command_line.parse(["--mode=evaluate", workdir])
    assert (config.data.source_language, config.data.target_language) == expected
    assert config.data.corpus == "parallel_text"
    assert (config.vocabulary.kind, config.vocabulary.model) == ("table", "")
    assert config.vocabulary.normalisation == "nfc"
    prepare.check(config)  # says nothing of a vocabulary to take over
