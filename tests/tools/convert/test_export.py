"""--mode=export: a run's folder in the format of another program."""

import functools
import json
import shutil

import jax
import numpy as np
import pytest
from etils import epath
from families.language_model import language
from helpers import tiny
from tools.convert import huggingface

from transformer.decoding.translator import Translator
from transformer.errors import UserError
from transformer.families.images.vision import VisionTransformer
from transformer.families.labels import class_names
from transformer.families.texts.text_encoder import MaskedLanguageModel
from transformer.models import fields
from transformer.modes import command_line
from transformer.runtime import checksums
from transformer.tasks import trained, translation, vocabularies
from transformer.tools.convert import arrays, export_keys
from transformer.tools.convert import export as export_mode
from transformer.tools.convert.export import export
from transformer.tools.convert.import_model import import_model
from transformer.workdir import run_config
from transformer.workdir.config_files import default_config


def with_keys(config):
    """A config as --mode=export has it."""
    config.update(export_keys.keys())
    return config


def config_of(run, **changes):
    config = with_keys(run_config.read_config(run.workdir))
    config.evaluate.weights = "best"
    config.update_from_flattened_dict({k.replace("__", "."): v for k, v in changes.items()})
    return config


@pytest.fixture(scope="module")
def exported(tiny_run, tmp_path_factory):
    """The tiny run as Hugging Face's Marian."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    export(config_of(tiny_run), (folder, tiny_run.workdir))
    return folder


def test_a_folder_has_a_card_and_checksums(exported):
    assert not checksums.corrupt_files(exported)
    card = (exported / "README.md").read_text()
    assert "license: other" in card
    assert "--mode=export model --workdir=" in card
    assert "--config.export.format=huggingface" in card
    assert "--config.evaluate.weights=best" in card
    assert not list(exported.parent.glob("*draft*"))
    (exported.parent / "usual").touch()
    modes = [x.stat().st_mode for x in (exported / "model.safetensors", exported.parent / "usual")]
    assert modes[0] == modes[1]


def test_what_is_exported_and_imported_translates_the_same(tiny_run, exported, tmp_path):
    given = shutil.copytree(exported, tmp_path / "given")
    search = json.loads((given / "generation_config.json").read_text()) | {"max_length": 60}
    (given / "generation_config.json").write_text(json.dumps(search))
    import_model(default_config("translation"), (given, tmp_path / "run"))
    config = with_keys(run_config.read_config(tmp_path / "run"))
    export(config, (tmp_path / "again", tmp_path / "run"))
    for name in ("generation_config.json", "vocab.json"):
        again = json.loads((tmp_path / "again" / name).read_text())
        assert again == json.loads((given / name).read_text())
    card = (tmp_path / "again" / "README.md").read_text()
    assert "`, imported." in card
    assert "trained on" not in card
    texts, outputs = ["b a c", "d d e a", ""], []
    for folder in (tiny_run.workdir, tmp_path / "run"):
        config = run_config.read_config(folder)
        config.evaluate.weights = "best"
        config.decode.update(length_penalty="power", beam_width=2, length_alpha=0.6)
        run = translation.load(config, folder)
        translator = Translator(run.model, run.vocabulary, **config.decode)
        outputs.append(list(translator.translate(run.params, texts)))
    assert outputs[0] == outputs[1]


def test_safetensors_are_our_params(tiny_run, tmp_path):
    config = config_of(tiny_run, export__format="safetensors")
    export(config, (tmp_path / "model", tiny_run.workdir))
    run = translation.load(config, tiny_run.workdir)
    with arrays.opened(tmp_path / "model") as (_, shapes, load):
        embedding = np.asarray(run.params["target_embedding"]["embedding"])
        np.testing.assert_array_equal(load("target_embedding/embedding"), embedding)
    assert len(shapes) > 10
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model"]["d_model"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"export__format": "onnx"}, r"config.export.format must be one of .*found 'onnx'"),
        ({"export__quantization": "int4"}, r"config.export.quantization must be one of"),
        ({"export__quantization": "int8"}, r"goes with config.export.format=ctranslate2"),
        ({"evaluate__ensemble": "x"}, r"needs a single model"),
        ({"architecture": "recurrent"}, r"config.architecture='recurrent' has no form"),
        ({"architecture": "text_classifier"}, r"no form in huggingface: .* tanh .*use --config"),
    ],
)
def test_what_cannot_be_exported_is_said_before_anything_is_written(
    tiny_run, tmp_path, changes, said
):
    with pytest.raises(UserError, match=said):
        export(config_of(tiny_run, **changes), (tmp_path / "model", tiny_run.workdir))
    assert not list(tmp_path.iterdir())


def restored(folder, target):
    """The workdir that --mode=import makes of an exported folder: its config, model and params."""
    arguments = ["--mode=import", str(folder), f"--workdir={target}"]
    _, folders, config = command_line.parse(arguments)
    import_model(config, folders)
    _, target, config = command_line.parse(["--mode=evaluate", f"--workdir={target}"])
    return config, trained.load(config, target)


def test_safetensors_are_a_workdir_again(tiny_run, tmp_path):
    config = config_of(tiny_run, export__format="safetensors", data__directory="/home/somebody")
    export(config, (tmp_path / "model", tiny_run.workdir))
    again, run = restored(tmp_path / "model", tmp_path / "again")
    original = translation.load(config, tiny_run.workdir)
    assert run.model == original.model
    tiny.assert_same_bits(run.params, original.params)
    assert again.vocabulary.to_dict() == config.vocabulary.to_dict()
    assert "export" not in run_config.read_config(tmp_path / "model")
    assert again.data.directory == ""  # a folder of the machine that it was trained on
    config.data.update(directory="", data_dir=again.data.data_dir)  # another machine has its own
    assert again.data.to_dict() == config.data.to_dict()


@pytest.fixture
def language_run(tmp_path, monkeypatch):
    """A function of {config key: value}: config and workdir of a language model of characters."""

    def run(**changes):
        config = language.config(tmp_path, {k.replace("__", "."): x for k, x in changes.items()})
        values = config.model.to_dict()
        model = language.model(vocab_size=12, **values)
        params = language.parameters(model)
        of_run = trained.Trained(model, params, [7], 7)
        load = trained.load
        monkeypatch.setattr(
            trained, "load", lambda config, x: of_run if x == folder else load(config, x)
        )
        folder = tmp_path / "run"
        vocabularies.write(folder, config, {"text.characters": b" abcdefg"})
        return with_keys(config), folder

    return run


@pytest.mark.parametrize(("lines", "ends"), [(0, None), (1, 1)])
def test_a_language_model_is_exported_as_gpt2(language_run, tmp_path, lines, ends):
    config, run = language_run(generate__lines=lines)
    export(config, (tmp_path / "model", run))
    read = lambda name: json.loads((tmp_path / "model" / name).read_text())
    assert read("config.json")["architectures"] == ["GPT2LMHeadModel"]
    assert read("config.json")["n_positions"] == config.model.max_positions
    assert read("generation_config.json")["eos_token_id"] == ends
    assert "pipeline_tag: text-generation" in (tmp_path / "model" / "README.md").read_text()
    again, loaded = restored(tmp_path / "model", tmp_path / "again")
    original = trained.load(config, run)
    assert loaded.model == original.model
    assert again.generate.lines == lines
    same = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    jax.tree.map(same, loaded.params, original.params)


def change(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def change_array(folder, name):
    with arrays.opened(folder) as (file, shapes, load):
        values = {name: np.array(load(name)) for name in shapes}
    values[name][-1] += 0.5
    arrays.write(file, values)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda x: shutil.rmtree(x / "run"), r"--mode=export writes .*found model_type='gpt2'"),
        (
            lambda x: change(x / "config.json", n_head=1),
            r"config.json .* is not what --mode=export",
        ),
        (lambda x: change(x / "tokenizer.json", truncation=9), r"tokenizer.json .* is not what"),
        (
            lambda x: change(x / "run" / "config.json", compilation_cache="x"),
            r"run/config.json .* is not what",
        ),
        (lambda x: change_array(x, "transformer.wpe.weight"), r"model.safetensors .* is not what"),
        (lambda x: (x / "checksums.json").unlink(), r"lacks checksums.json, which --mode=export"),
    ],
)
def test_a_folder_that_is_no_longer_what_was_written_is_refused(
    language_run, tmp_path, damage, said
):
    config, run = language_run(model__positions="interleaved")
    export(config, (tmp_path / "model", run))
    damage(tmp_path / "model")
    with pytest.raises(UserError, match=said):
        restored(tmp_path / "model", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_language_model_without_that_form_is_said_and_exported_as_safetensors(
    language_run, tmp_path
):
    config, run = language_run(model__positions="rotary")
    with pytest.raises(UserError, match=r"GPT-2 has no form for config.model.positions='rotary'"):
        export(config, (tmp_path / "model", run))
    assert not (tmp_path / "model").exists()
    config.export.format = "safetensors"
    export(config, (tmp_path / "model", run))
    assert (tmp_path / "model" / "model.safetensors").is_file()
    config.export.format = "ctranslate2"
    with pytest.raises(UserError, match=r"'language_model' has no form in ctranslate2"):
        export(config, (tmp_path / "other", run))


def test_a_masked_language_model_is_exported_as_megatron_bert(tmp_path, monkeypatch):
    vocab = huggingface.learn()
    model = fields.make(MaskedLanguageModel, vocab_size=len(vocab), **huggingface.ENCODER)
    params = tiny.parameters(model, huggingface.masked_inputs(len(vocab)))
    original, load = trained.Trained(model, params, [7], 7), trained.load
    monkeypatch.setattr(trained, "load", lambda *_: original)
    config = with_keys(default_config("masked_language"))
    config.model.update({k: x for k, x in huggingface.ENCODER.items() if k != "mask_share"})
    contents = {"text.model": vocab.processor.serialized_model_proto()}
    vocabularies.write(tmp_path / "run", config, contents)
    export(config, (tmp_path / "model", tmp_path / "run"))
    read = lambda name: json.loads((tmp_path / "model" / name).read_text())
    assert read("config.json")["architectures"] == ["MegatronBertForMaskedLM"]
    assert read("tokenizer_config.json")["model_max_length"] == config.data.max_length
    assert "pipeline_tag: fill-mask" in (tmp_path / "model" / "README.md").read_text()
    monkeypatch.setattr(trained, "load", load)
    _, loaded = restored(tmp_path / "model", tmp_path / "again")
    assert loaded.model == model
    tiny.assert_same_bits(loaded.params, params)


def test_a_vision_model_is_exported_as_vit_with_the_names_of_its_classes(tmp_path, monkeypatch):
    model = fields.make(VisionTransformer, **huggingface.VISION)
    params = tiny.parameters(model, {"images": huggingface.images(model, 1)})
    original, load = trained.Trained(model, params, [7], 7), trained.load
    monkeypatch.setattr(trained, "load", lambda *_: original)
    class_names.write(tmp_path / "run", ["cat", "dog", "bee"])
    config = with_keys(default_config("image_classification"))
    sizes = ("num_classes", "image_size")
    config.model.update({k: x for k, x in huggingface.VISION.items() if k not in sizes})
    config.data.update(size=model.image_size, channels=1)
    export(config, (tmp_path / "model", tmp_path / "run"))
    read = lambda name: json.loads((tmp_path / "model" / name).read_text())
    assert read("config.json")["id2label"] == {"0": "cat", "1": "dog", "2": "bee"}
    assert read("preprocessor_config.json")["size"] == {"shortest_edge": round(28 / 0.875)}
    assert "pipeline_tag: image-classification" in (tmp_path / "model" / "README.md").read_text()
    monkeypatch.setattr(trained, "load", load)
    _, loaded = restored(tmp_path / "model", tmp_path / "again")
    assert loaded.model == model
    tiny.assert_same_bits(loaded.params, params)
    assert class_names.read(tmp_path / "again", "") == ("cat", "dog", "bee")


def test_a_folder_in_use_is_kept(tiny_run, exported, tmp_path):
    with pytest.raises(UserError, match="exists and is not empty"):
        export(config_of(tiny_run), (exported, tiny_run.workdir))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="exists and is not empty"):
        export(config_of(tiny_run), (tmp_path / "file", tiny_run.workdir))
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for _ in range(2):  # without and with the folder that it is a link to
        with pytest.raises(UserError, match="link is a link: give"):
            export(config_of(tiny_run), (tmp_path / "link", tiny_run.workdir))
        (tmp_path / "empty").mkdir(exist_ok=True)


def test_a_full_disk_is_one_line_and_leaves_nothing(tiny_run, tmp_path, no_file_over):
    with (
        no_file_over(10_000),
        pytest.raises(UserError, match=r"File too large.*give a folder on another disk"),
    ):
        export(config_of(tiny_run), (tmp_path / "model", tiny_run.workdir))
    assert not list(tmp_path.iterdir())


def test_of_two_exports_into_a_folder_the_first_is_kept(tiny_run, tmp_path, monkeypatch):
    folder, write = tmp_path / "model", export_mode.write

    def write_late(*arguments):
        folder.mkdir()
        (folder / "model.safetensors").write_text("of the other")
        write(*arguments)

    monkeypatch.setattr(export_mode, "write", write_late)
    with pytest.raises(UserError, match=r"cannot create .*model: .*not empty"):
        export(config_of(tiny_run), (folder, tiny_run.workdir))
    assert (folder / "model.safetensors").read_text() == "of the other"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_bucket_is_refused(tiny_run):
    with pytest.raises(UserError, match="is in a bucket"):
        export(config_of(tiny_run), (epath.Path("gs://bucket/model"), tiny_run.workdir))
