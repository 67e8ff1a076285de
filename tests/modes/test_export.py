"""--mode=export: a run's folder in the format of another program."""

import json

import numpy as np
import pytest

from transformer.checkpoints import workdir
from transformer.checkpoints.config_files import default_config
from transformer.decoding.translator import Translator
from transformer.errors import UserError
from transformer.interop import arrays
from transformer.modes.export import export
from transformer.modes.import_model import import_model
from transformer.storage import checksums
from transformer.tasks import translation


def config_of(run, **changes):
    config = workdir.read_config(run.workdir)
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
    assert "--mode=export model" in card
    assert not list(exported.parent.glob("*draft*"))


def test_what_is_exported_and_imported_translates_the_same(tiny_run, exported, tmp_path):
    import_model(default_config("translation"), (exported, tmp_path / "run"))
    texts, outputs = ["b a c", "d d e a", ""], []
    for folder in (tiny_run.workdir, tmp_path / "run"):
        config = workdir.read_config(folder)
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
        ({"export__format": "onnx"}, r"config.export.format is one of .*found 'onnx'"),
        ({"export__quantization": "int4"}, r"config.export.quantization is one of"),
        ({"export__quantization": "int8"}, r"goes with config.export.format=ctranslate2"),
        ({"evaluate__ensemble": "x"}, r"needs a single model"),
        ({"vocabulary__kind": "characters"}, r"no form for config.vocabulary.kind='characters'"),
        ({"architecture": "recurrent"}, r"config.architecture='recurrent' has no form"),
    ],
)
def test_what_cannot_be_exported_is_said_before_anything_is_written(
    tiny_run, tmp_path, changes, said
):
    with pytest.raises(UserError, match=said):
        export(config_of(tiny_run, **changes), (tmp_path / "model", tiny_run.workdir))
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_is_kept(tiny_run, exported, tmp_path):
    with pytest.raises(UserError, match="exists and is not empty"):
        export(config_of(tiny_run), (exported, tiny_run.workdir))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="exists and is not empty"):
        export(config_of(tiny_run), (tmp_path / "file", tiny_run.workdir))
