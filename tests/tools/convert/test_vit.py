"""Hugging Face's ViT: a recorded model's logits; random models and images there and here.

fixtures/vit was made by record_huggingface.py with transformers, which only the last tests need.
"""

import json

import numpy as np
import pytest
from helpers import tiny
from PIL import Image
from tools.convert import huggingface

from transformer.families.images import images

RECORDED = huggingface.FIXTURES / "vit"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    return folder, *huggingface.write_vit(folder)


def logits(model, params, array):
    return tiny.logits(model, params, {"images": array})


def test_what_is_written_is_what_transformers_has_read(written):
    huggingface.assert_same_files(written[0], RECORDED)


def test_logits_are_those_of_transformers(written):
    _, model, params = written
    expected = json.loads((RECORDED / "expected.json").read_text())
    ours = logits(model, params, huggingface.images(model))
    np.testing.assert_allclose(ours, expected["logits"], atol=1e-5)
    assert np.std(ours) > 0.3


def theirs(folder, opened):
    """Their logits of images, and {name: number} of the classes."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits_BV = model(**processor(opened, return_tensors="pt")).logits.numpy()
    return logits_BV, model.config.label2id


COLOUR = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.25)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "none", "activation": "relu", "attention_bias": False, **COLOUR},
        {"position_grid": 3, "activation": "gelu_tanh", "norm_epsilon": 1e-3},
    ],
)
def test_a_random_model_is_the_same_function_there(tmp_path, changes):
    model, params = huggingface.write_vit(tmp_path, **changes)
    array = huggingface.images(model)
    expected, classes = theirs(tmp_path, [Image.fromarray(image.squeeze()) for image in array])
    np.testing.assert_allclose(logits(model, params, array), expected, atol=1e-5)
    assert classes == {"zero": 0, "one": 1, "two": 2}


def test_a_square_of_any_size_is_seen_as_here(tmp_path):
    model, params = huggingface.write_vit(tmp_path)
    random = np.random.default_rng(1)
    opened = [Image.fromarray(random.integers(0, 256, (n, n), np.uint8)) for n in (14, 28, 50, 131)]
    view = images.View(size=28, channels=1, central_crop=1.0)
    ours = np.stack([images.viewed(image, view, None) for image in opened])
    np.testing.assert_allclose(logits(model, params, ours), theirs(tmp_path, opened)[0], atol=1e-5)
