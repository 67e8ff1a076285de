"""The tuned forms against the plain ones; those of accelerators run on a CPU, too."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.families.kernels import tuned
from transformer.models import kernels
from transformer.runtime import startup


def as_elsewhere(monkeypatch):
    """Makes `platform_dependent` choose what a TPU or a GPU compiles."""
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *x, cpu, default: default(*x))


def test_accelerators_have_the_sums_and_gradients_of_cpus():
    """In one pass, by a mask: the same, and NaN, too, for a target that is no class."""
    random, V = np.random.default_rng(1), 7
    logits = jnp.asarray(15 * random.standard_normal((3, 12, V)) + 100, jnp.float32)
    targets = random.integers(0, V, (3, 12))

    def gradients(function):
        values, back = jax.vjp(lambda logits: function(logits, targets)[:3], logits)
        return *function(logits, targets), *(
            back(tuple(jnp.full_like(x, i == j) for j, x in enumerate(values)))[0] for i in range(3)
        )

    forms = tuned.in_one_pass, kernels.PLAIN.class_sums
    for found, expected in zip(*map(gradients, forms), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for no_class in (V, -V - 1):
        assert np.isnan([form(logits, jnp.full_like(targets, no_class))[1] for form in forms]).all()


def test_accelerators_select_the_state_that_cpus_branch_to(monkeypatch):
    params = jnp.arange(3.0)
    update = lambda gradient, params: (params - gradient, gradient * 2)
    keep = lambda gradient, params: (params, gradient)
    cond = lambda finite: tuned.cond(finite, update, keep, jnp.array([1.0, np.nan, 3.0]), params)
    lowered = lambda: jax.jit(lambda finite: cond(finite)).lower(True).as_text()
    expected = [cond(jnp.bool_(finite)) for finite in (True, False)]
    assert "stablehlo.case" in lowered()
    as_elsewhere(monkeypatch)
    assert "stablehlo.case" not in lowered()
    tiny.assert_same_bits([cond(jnp.bool_(finite)) for finite in (True, False)], expected)
    tiny.assert_same_bits(expected[1][0], params)


def test_each_input_bit_flips_half_of_a_hash():
    x = jnp.asarray(np.random.default_rng(0).integers(2**32, size=4096), jnp.uint32)
    for i in range(32):
        flipped = np.asarray(tuned.mixed(x) ^ tuned.mixed(x ^ jnp.uint32(1 << i)))
        bits = (flipped[:, None] >> np.arange(32, dtype=np.uint32)) & 1
        np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.04)


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
def test_gpus_hash_and_others_draw_random_words(generator):
    """By the programs of three platforms, two of which have the generator."""
    words = jax.jit(functools.partial(tuned.random_words, shape=(64, 64)))
    key = jax.random.key(0, impl=generator)
    for platform in ("cpu", "tpu", "cuda"):
        lowered = words.trace(key).lower(lowering_platforms=(platform,)).as_text()
        assert ("threefry" in lowered or "rng_bit" in lowered) == (platform != "cuda")
    np.testing.assert_array_equal(words(key), jax.random.bits(key, (64, 64)))


def test_the_norm_under_pmap_is_that_of_all_elements():
    """Of a scalar, a vector, a matrix and a kernel with heads."""
    random = np.random.default_rng(5)
    shapes = ((), (7,), (3, 5), (2, 3, 4))
    tree = {str(shape): jnp.asarray(random.standard_normal(shape)) for shape in shapes}
    expected = float(kernels.PLAIN.norm(tree, None))
    assert float(tuned.norm(tree, "devices")) == pytest.approx(expected, rel=1e-6)
    assert float(tuned.norm(tree, None)) == expected


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_logits_are_those_of_the_einsum(rows, dtype):
    random = np.random.default_rng(6)
    draw = lambda *shape: jnp.asarray(random.integers(-3, 4, shape), dtype)  # every sum is exact
    x, matrix = draw(rows, 2, 5), draw(9, 5)
    for out in (jnp.float32, dtype):
        both = [form.logits(x, matrix, out) for form in (tuned.TUNED, kernels.PLAIN)]
        tiny.assert_same_bits(*both)


def test_accelerators_have_the_weight_gradients_of_cpus(monkeypatch):
    random = np.random.default_rng(11)
    draw = lambda *shape: jnp.asarray(random.integers(-3, 4, shape), jnp.float32)
    x, dense, logits = draw(4, 3, 5), draw(5, 2, 3), draw(2, 3, 5)

    def gradients():
        product = lambda y, axis: tuned.TUNED.dot_general(x, y, (((2,), (axis,)), ((), ()))).sum()
        return jax.grad(product)(dense, 0), jax.grad(product)(logits, 2)

    here = gradients()
    as_elsewhere(monkeypatch)
    tiny.assert_same_bits(gradients(), here)


@pytest.mark.parametrize("unit", ["amx_bf16", "avx512f"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bfloat16_is_named_if_faster(unit, dtype, answered, reversal_run, monkeypatch, caplog):
    monkeypatch.setattr(startup, "cpu_features", lambda: f"flags : {unit}")
    caplog.set_level("INFO")
    answered("translate", reversal_run, b"", **{"model.dtype": dtype})
    is_named = "--config.model.dtype=bfloat16 translates faster" in caplog.text
    assert is_named == ((unit, dtype) == ("amx_bf16", "float32"))
