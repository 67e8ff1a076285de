"""--mode=export: a run's folder in the format of another program."""

import contextlib
import pathlib
import shutil

import numpy as np
import pytest
from etils import epath
from families.language_model import language
from helpers import tiny

from transformer import errors
from transformer.decoding.translator import Translator
from transformer.errors import UserError
from transformer.modes import command_line
from transformer.runtime import checksums
from transformer.tasks import saved_model, translation, vocabularies
from transformer.tools.convert import arrays, marian_tokenizer
from transformer.tools.convert import export as export_mode
from transformer.tools.convert.export import export
from transformer.tools.convert.import_model import import_model
from transformer.workdir import key_tables, saved_config
from transformer.workdir.config_files import default_config


def config_of(run, **changes):
    config = key_tables.set_mode_keys(saved_config.read_config(run.workdir), "export")
    config.evaluate.weights = "best"
    config.update_from_flattened_dict({k.replace("__", "."): v for k, v in changes.items()})
    return config.lock()  # as of the command line


@pytest.fixture(scope="module")
def exported(tiny_run, tmp_path_factory):
    """The tiny run as Hugging Face's Marian."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    export(config_of(tiny_run, decode__min_length=2), (folder, tiny_run.workdir))
    return folder


def test_a_folder_has_a_card_and_checksums(exported):
    assert not checksums.corrupt_files(exported)
    card = (exported / "README.md").read_text()
    assert "license: other" in card
    assert "--mode=export model --workdir=" in card
    assert "--config.export.format=huggingface" in card
    assert "--config.evaluate.weights=best" in card
    assert marian_tokenizer.languages(exported) == ("ko", "en")
    assert not list(exported.parent.glob("*draft*"))
    (exported.parent / "usual").touch()
    modes = [x.stat().st_mode for x in (exported / "model.safetensors", exported.parent / "usual")]
    assert modes[0] == modes[1]


@pytest.mark.slow
def test_what_is_exported_and_imported_translates_the_same(tiny_run, exported, tmp_path):
    import_model(default_config("translation"), (exported, tmp_path / "run"))
    texts, outputs = ["b a c", "d d e a", ""], []
    for folder in (tiny_run.workdir, tmp_path / "run"):
        config = saved_config.read_config(folder)
        assert config.decode.min_length == (0 if folder == tiny_run.workdir else 2)
        config.evaluate.weights = "best"
        config.decode.update(length_penalty="power", beam_width=2, length_alpha=0.6, min_length=2)
        run = translation.load(config, folder)
        translator = Translator(run.model, run.vocabulary, **config.decode)
        outputs.append(list(translator.translate(run.params, texts)))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"export__quantization": "int8"}, r"is for config.export.format=ctranslate2"),
        ({"evaluate__ensemble": "x"}, r"needs a single model"),
        ({"architecture": "recurrent"}, r"config.architecture='recurrent' cannot be exported"),
        ({"task": "parsing"}, r"config.task='parsing' cannot be exported as "),
        ({"task": "toy"}, "needs a vocabulary, and the task 'toy' has none"),
    ],
)
def test_what_cannot_be_exported_is_said_before_writing(tiny_run, tmp_path, changes, said):
    config = config_of(tiny_run, **changes)
    if config.task == "toy":
        del config.unlock().vocabulary
    with pytest.raises(UserError, match=said):
        export(config, (tmp_path / "model", tiny_run.workdir))
    assert not list(tmp_path.iterdir())


def restored(folder, target):
    """The workdir that --mode=import makes of an exported folder: its config, model and params."""
    _, folders, config = command_line.parse(["--mode=import", str(folder), f"--workdir={target}"])
    import_model(config, folders)
    _, target, config = command_line.parse(["--mode=evaluate", f"--workdir={target}"])
    return config, saved_model.load(config, target)


@pytest.fixture(scope="module")
def as_safetensors(tiny_run, tmp_path_factory):
    """The tiny run's folder as safetensors, and the config that it was exported with."""
    config = config_of(tiny_run, export__format="safetensors", data__directory="/home/somebody")
    folder = tmp_path_factory.mktemp("safetensors") / "model"
    export(config, (folder, tiny_run.workdir))
    return folder, config


def test_safetensors_are_a_workdir_again(tiny_run, tmp_path, as_safetensors):
    folder, config = as_safetensors
    again, run = restored(folder, tmp_path / "again")
    original = translation.load(config, tiny_run.workdir)
    assert run.model == original.model
    tiny.assert_same_bits(run.params, original.params)
    assert again.vocabulary.to_dict() == config.vocabulary.to_dict()
    assert "export" not in saved_config.read_config(folder)
    assert again.data.directory == ""  # a folder of the machine that it was trained on
    config.data.update(directory="", data_dir=again.data.data_dir)  # another machine has its own
    assert again.data.to_dict() == config.data.to_dict()


def with_arrays(folder, signed, **changed):
    """Changes arrays of a folder; `signed`: as if --mode=export had written them."""
    with arrays.opened(folder) as (file, shapes, load):
        values = {name: np.array(load(name)) for name in shapes} | changed
    arrays.write(file, values)
    if signed:
        (folder / "checksums.json").write_bytes(checksums.checksums_of(folder))


def append_to_config(folder):
    with open(folder / "config.json", "a") as file:
        file.write(" ")


DAMAGES = {  # {words of the one line, or none: what is done to a folder}
    r"config.json .* is not what --mode=export": append_to_config,
    r"model.safetensors .* is not what": lambda x: with_arrays(x, False, more=np.zeros(3)),
    r"checksums.json is not what --mode=export": lambda x: (x / "checksums.json").unlink(),
    "output_bias is not a parameter of config.json's model": (
        lambda x: with_arrays(x, True, output_bias=np.zeros(3))
    ),
    r"target_embedding/embedding has the shape \[3, 3\], expected": (
        lambda x: with_arrays(x, True, **{"target_embedding/embedding": np.zeros((3, 3))})
    ),
    "": lambda x: (x / "README.md").write_text("My model"),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_folder_that_is_not_what_was_written_is_refused(as_safetensors, tmp_path, said):
    """But for the model card."""
    folder = shutil.copytree(as_safetensors[0], tmp_path / "model")
    DAMAGES[said](folder)
    with pytest.raises(UserError, match=said) if said else contextlib.nullcontext():
        restored(folder, tmp_path / "again")
    assert (tmp_path / "again").exists() == (not said)


def test_a_language_model_has_no_form_but_safetensors(tmp_path, monkeypatch):
    """Of another task, with one vocabulary of characters."""
    config = key_tables.set_mode_keys(language.config(tmp_path), "export")
    model = language.model(vocab_size=12, **config.model)
    params = language.parameters(model)
    run, folder = tmp_path / "run", tmp_path / "model"
    vocabularies.write(run, config, {"text.characters": b" abcdefg"})
    with monkeypatch.context() as patched:
        patched.setattr(
            saved_model, "load", lambda *_: saved_model.SavedModel(model, params, [7], 7)
        )
        for program in ("huggingface", "ctranslate2"):
            config.export.format = program
            with pytest.raises(UserError, match=rf"'language_model' .* exported as {program}: use"):
                export(config, (folder, run))
        assert not folder.exists()
        config.export.format = "safetensors"
        export(config, (folder, run))
    assert "pipeline_tag: text-generation" in (folder / "README.md").read_text()
    _, loaded = restored(folder, tmp_path / "again")
    assert loaded.model == model
    tiny.assert_same_bits(loaded.params, params)


def test_only_a_new_folder_on_a_disk_is_written(tiny_run, exported, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty")
    places = [exported, tmp_path / "file", tmp_path / "link", pathlib.Path()]
    for place in [*places, epath.Path("gs://bucket/model")]:
        with pytest.raises(UserError, match="must be a new or empty folder on a disk"):
            export(config_of(tiny_run), (place, tiny_run.workdir))


def test_a_full_disk_is_one_line_and_leaves_nothing(tiny_run, tmp_path, no_file_over):
    with no_file_over(10_000), pytest.raises(Exception, match="File too large") as error:
        export(config_of(tiny_run), (tmp_path / "model", tiny_run.workdir))
    assert errors.one_line(error.value).startswith("File too large: free some space")
    assert not list(tmp_path.iterdir())


def test_of_two_exports_into_a_folder_the_first_is_kept(tiny_run, tmp_path, monkeypatch):
    folder, write = tmp_path / "model", export_mode.write

    def write_late(*arguments):
        folder.mkdir()
        (folder / "model.safetensors").write_text("of the other")
        write(*arguments)

    monkeypatch.setattr(export_mode, "write", write_late)
    with pytest.raises(OSError, match=r"not empty.*model"):
        export(config_of(tiny_run), (folder, tiny_run.workdir))
    assert (folder / "model.safetensors").read_text() == "of the other"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
