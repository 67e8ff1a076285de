"""The residual's kernels against LayerNorm, dropout and sum, in Pallas' interpreter."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, use_abstract_mesh

from transformer.distributed.layout import PMAP_AXIS
from transformer.families.kernels import residual, tuned
from transformer.models import dense, kernels, layers

D, KEY = 64, jax.random.key(3)


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-5), (jnp.bfloat16, 1e-2)])
@pytest.mark.parametrize(("num_rows", "rate"), [(48, 0.1), (24, 0.0), (3, 0.5)])
def test_the_kernels_are_norm_of_sum_with_dropout(num_rows, rate, dtype, tolerance):
    random = np.random.default_rng(0)
    x, y, weights = (jnp.asarray(random.standard_normal((num_rows, D)), dtype) for _ in range(3))
    scale, bias = jnp.asarray(random.standard_normal((2, D)), jnp.float32)

    def in_parts(x, y, scale, bias):
        words = tuned.hashed(KEY, (num_rows, D // 2))
        halves = jnp.concatenate([words & 0xFFFF, words >> 16], axis=-1)
        norm = nn.LayerNorm(epsilon=1e-6, dtype=dtype)
        params = {"scale": scale, "bias": bias}
        return norm.apply({"params": params}, x + dense.drop(y, halves, rate))

    words = jax.random.key_data(KEY)
    fused = lambda *arrays: residual.post_norm(rate, 1e-6, *arrays, words)
    arrays = weights, x, y, scale, bias
    results = (tiny.output_and_gradients(f, *arrays) for f in (fused, in_parts))
    for found, expected in zip(*results, strict=True):
        expected = np.asarray(expected, np.float32)
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def sublayer():
    """Returns a function under pmap: a post-norm residual's gradients and output; and its input."""
    options = tiny.model(d_model=D, dropout_rate=0.25).options
    layer, x = layers.PostNorm(options, jnp.float32), jax.random.normal(KEY, (1, 2, 6, D))
    variables = layer.init(KEY, x[0], jnp.sin, train=False)
    apply = functools.partial(layer.apply, rngs={"dropout": KEY}, train=True)

    def squares(variables, x):
        out = apply(variables, x, jnp.sin)
        return jnp.square(out - 1).sum(), out

    gradients = jax.value_and_grad(squares, has_aux=True)
    return jax.pmap(gradients, PMAP_AXIS, in_axes=(None, 0)), variables, x


def test_a_sublayer_is_the_same_by_the_kernels(monkeypatch):
    """Of equal random words, and with the params where the plain form has them."""
    plain = kernels.PLAIN._replace(random_words=tuned.hashed)
    fused = plain._replace(fused_residual=residual.fused_residual)
    results = []
    for chosen in (plain, fused):
        monkeypatch.setattr(kernels, "chosen", lambda chosen=chosen: chosen)
        function, variables, x = sublayer()
        assert ("pallas_call" in str(jax.make_jaxpr(function)(variables, x))) == (chosen is fused)
        results.append(function(variables, x))
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fields", [{}, {"norm": "rms"}, {"d_model": 48}])
def test_other_sublayers_and_global_programs_keep_their_form(fields):
    """XLA would gather all rows for a kernel that it cannot divide."""
    layer = layers.PostNorm(tiny.model(**{"d_model": D} | fields).options, jnp.float32)
    keeps = lambda _: residual.fused_residual(layer) is None
    assert keeps(0)
    assert jax.vmap(keeps, out_axes=None, axis_name=PMAP_AXIS)(jnp.zeros(1)) == bool(fields)


def test_triton_takes_the_kernels():
    """Without a GPU: JAX translates them for an abstract one."""
    gpu = AbstractDevice(device_kind="NVIDIA H100 80GB HBM3", num_cores=None, platform="gpu")
    mesh = AbstractMesh((1,), ("x",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    rows, vector = jnp.zeros((48, D), jnp.bfloat16), jnp.zeros(D)

    def loss(*arrays):
        out = residual.post_norm(0.1, 1e-6, *arrays, jax.random.key_data(KEY))
        return out.astype(jnp.float32).sum()

    with use_abstract_mesh(mesh):
        traced = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3))).trace(rows, rows, vector, vector)
        assert traced.lower(lowering_platforms=("cuda",)).as_text().count("gpu.triton") == 2
