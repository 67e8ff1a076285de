"""The Vision Transformer: what an image becomes, and what its classes depend on."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import tiny_models
from helpers import tiny

from configs import cluttered_mnist, image_classification, mnist
from transformer.errors import UserError
from transformer.families.images.patches import ConvolutionalStem
from transformer.families.images.vision import VisionTransformer
from transformer.models import fields

POOLING = pytest.mark.parametrize("pooling", ["token", "mean"])
MEAN, STD = (np.array(tiny_models.VISION[name]) for name in ("mean", "std"))


IMAGES = tiny_models.IMAGES  # of 12 x 12, in patches of 4 x 4


def vision(**changes):
    return tiny_models.case("vision_transformer", **changes)


def logits(case, images, **params):
    return case._replace(params={**case.params, **params}).logits({"images": images})


def test_the_encoders_input_is_normalised_pixels_times_a_matrix_plus_positions():
    model, params = vision().model, vision().params
    embed = functools.partial(model.apply, {"params": params}, method="embed", train=False)
    embedded = np.asarray(embed(IMAGES))
    pixels = (IMAGES / 255 - MEAN) / STD
    pixels = pixels.reshape(3, 3, 4, 3, 4, 3).swapaxes(2, 3).reshape(3, 9, 48)
    linear = params["patches"]["linear"]
    expected = pixels @ linear["kernel"].reshape(48, 16) + linear["bias"]
    expected += params["position_grid"].reshape(9, 16)
    np.testing.assert_allclose(embedded[:, 1:], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(embedded[:, 0], np.repeat(params["token"][0], 3, axis=0))


@POOLING
def test_only_positions_tell_where_a_patch_is(pooling):
    case = vision(pooling=pooling)
    patches = IMAGES.reshape(3, 3, 4, 3, 4, 3).swapaxes(2, 3).reshape(3, 9, 4, 4, 3)
    order = np.random.default_rng(1).permutation(9)
    moved = patches[:, order].reshape(3, 3, 3, 4, 4, 3).swapaxes(2, 3).reshape(3, 12, 12, 3)
    assert np.abs(logits(case, IMAGES) - logits(case, moved)).max() > 0.01
    none = {"position_grid": 0 * case.params["position_grid"]}
    assert np.abs(logits(case, IMAGES, **none) - logits(case, moved, **none)).max() < 1e-4
    for positions in ("interleaved", "appended(encoding='learned')"):
        numbered = vision(pooling=pooling, positions=positions, mixer="average", position_grid=1)
        assert np.abs(logits(numbered, IMAGES) - logits(numbered, moved)).max() > 1e-3
    assert numbered.params["positions"]["Learned_0"]["embedding"].shape[0] == 9 + 1  # the token


@POOLING
def test_a_larger_image_has_the_positions_interpolated(pooling):
    """As fine-tuning at another resolution, or evaluating at it: the same params serve both."""
    case, larger = vision(pooling=pooling), vision(pooling=pooling, position_grid=6, image_size=24)
    images = np.random.default_rng(0).integers(0, 256, (3, 24, 24, 3)).astype(np.uint8)
    shapes = tiny.shapes(case.model, {"images": images})
    assert jax.tree.map(np.shape, case.params) == jax.tree.map(np.shape, shapes)
    positions = jax.image.resize(case.params["position_grid"], (6, 6, 16), "bilinear")
    expected = logits(larger, images, **{**case.params, "position_grid": positions})
    np.testing.assert_allclose(logits(case, images), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "grid", "depth", "channels"),
    [(16, 4, 1, [1, 6, 12]), (28, 7, 1, [1, 6, 12]), (13, 4, 2, [1, 6, 6, 12, 12])],
)
def test_a_stem_halves_the_image_and_doubles_the_channels(size, grid, depth, channels):
    model = ConvolutionalStem(12, 2, depth, dtype=jnp.float32)
    output, variables = jax.eval_shape(
        lambda: model.init_with_output(jax.random.key(0), jnp.ones((2, size, size, 1)))
    )
    assert output.shape == (2, grid, grid, 12)
    kernels = {name: p["kernel"].shape for name, p in variables["params"].items() if "Conv" in name}
    expected = [(3, 3, *pair) for pair in itertools.pairwise(channels)] + [(1, 1, 12, 12)]
    assert kernels == {f"Conv_{i}": shape for i, shape in enumerate(expected)}


def test_before_training_all_classes_are_equally_likely():
    case = vision()
    init = tiny.jit(functools.partial(case.model.init, train=False))
    assert not logits(case, IMAGES, **init(jax.random.key(0), IMAGES)["params"]).any()


def num_parameters(size, channels, **values):
    """The number of params of a model for images of size x size pixels."""
    model = fields.make(VisionTransformer, image_size=size, **values)
    shapes = tiny.shapes(model, {"images": np.zeros((1, size, size, channels), np.uint8)})
    return sum(x.size for x in jax.tree.leaves(shapes))


def test_parameters_of_the_papers_models():
    """ViT-B/16 and ViT-S/16 with 1,000 classes have 86.6 and 22.1 million (their code's counts).

    One vector less: the position of the class token, which is part of the token here.
    """
    small = {"d_model": 384, "d_ff": 1536, "num_heads": 6}
    for changes, expected in (({}, 86_567_656), (small, 22_050_664)):
        model = image_classification.get_config().model.to_dict() | changes
        assert num_parameters(224, 3, num_classes=1000, **model) == expected - model["d_model"]


@pytest.mark.parametrize("config", [mnist, cluttered_mnist])
def test_variants_have_as_many_parameters_within_3_percent(config):
    counts = []
    for variant in config.VARIANTS:
        values = config.get_config(variant)
        counts.append(num_parameters(values.data.size, 1, num_classes=10, **values.model))
    assert max(counts) < 1.03 * min(counts), counts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 5}, "config.data.size=12 must be a multiple of config.model.patch_size=5"),
        ({"stem": "convolutions", "patch_size": 3}, "patch_size=3 must be a power of two"),
        ({"num_layers": 0}, "config.model.num_layers=0 needs config.model.pooling='mean'"),
        ({"mean": (0.5,)}, "config.model.mean and config.model.std must have a number for each"),
        ({"std": (0.5, 0.0, 0.5)}, "config.model.std must be above 0"),
        ({"num_heads": 3, "key_size": 0}, "config.model.d_model=16 must be a multiple of"),
    ],
)
def test_invalid_fields_are_named(changes, message):
    with pytest.raises(UserError, match=message):
        vision(**changes)
