"""Arrays of other programs in our layout."""

import flax.traverse_util
import numpy as np
import pytest
from helpers import tiny

from transformer.tools.convert import matrices


def test_a_matrix_times_a_vector_is_our_kernel_s_product():
    random = np.random.default_rng(0)
    matrix, x = random.normal(size=(6, 4)), random.normal(size=4)  # [out, in]
    kernel = matrices.from_foreign(matrix, (4, 2, 3))
    np.testing.assert_allclose(np.einsum("D,DHK->HK", x, kernel).reshape(-1), matrix @ x)
    assert (
        matrices.to_foreign("encoder/layers_0/self_attention/query/kernel", kernel) == matrix
    ).all()
    output, context = random.normal(size=(5, 6)), random.normal(size=(2, 3))
    kernel = matrices.from_foreign(output, (2, 3, 5))
    np.testing.assert_allclose(
        np.einsum("HC,HCD->D", context, kernel), output @ context.reshape(-1)
    )
    path = "decoder/layers_1/cross_attention/output/kernel"
    assert (matrices.to_foreign(path, kernel) == output).all()
    assert matrices.foreign_shape(path, (2, 3, 5)) == output.shape


@pytest.mark.parametrize("count", [64, 4096])
def test_sinusoids_are_recognised_in_bfloat16(count):
    """And where another program computed the angles in float64."""
    angles = np.arange(count)[:, None] / 10000 ** (np.arange(256) / 256)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    rounded = table.astype("bfloat16").astype(np.float32)
    assert matrices.are_sinusoids(rounded, 512, first=0)
    assert not matrices.are_sinusoids(rounded + np.float32(0.01), 512, first=0)


CHANGES = {
    "paper": {},
    "untied": {"tied_embeddings": "none", "output_bias": True},
    "biases": {"attention_bias": True, "tied_embeddings": "target"},
    "pre": {"residual": "pre", "final_norm": True, "norm": "rms"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_halves_is_the_same_function(name):
    """The paper's model in another order of d_model: the same logits."""
    model, in_halves = (tiny.model(**CHANGES[name], **x) for x in ({}, {"positions": "halves"}))
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    flat = flax.traverse_util.flatten_dict(tiny.parameters(model, inputs), sep="/")
    moved = matrices.halves(flat)
    assert any((moved[path] != flat[path]).any() for path in flat)
    logits = [
        tiny.logits(changed, flax.traverse_util.unflatten_dict(params, sep="/"), inputs)
        for changed, params in ((model, flat), (in_halves, moved))
    ]
    np.testing.assert_allclose(*logits, rtol=1e-5, atol=1e-5)
    assert logits[0].std() > 0.1
