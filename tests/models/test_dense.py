"""Dropout drops at its rate, and passes the gradient of what it kept."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import registry
from transformer.models import dense


@pytest.mark.parametrize("name", sorted({"plain", "tuned"} & registry.KERNELS.keys()))
@pytest.mark.parametrize("rate", [0.1, 0.9])
@pytest.mark.parametrize("size", [1000, 999, 1])
def test_dropout_drops_at_its_rate_and_each_number_for_itself(
    use_kernels, monkeypatch, name, rate, size
):
    """Within 4.5 standard deviations: the rate, in every row and column, and of neighbours."""
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *x, cuda, default: cuda(*x))
    use_kernels(name)
    x = jnp.ones((1_000_000 // size, size))
    apply = functools.partial(dense.Dropout(rate=rate).apply, {}, x, deterministic=False)
    found = np.asarray(apply(rngs={"dropout": jax.random.key(3)}))
    np.testing.assert_allclose(np.unique(found), [0, 1 / (1 - rate)], rtol=1e-4)
    dropped = found == 0

    def near(counts, mean, of):
        assert (np.abs(counts - of * mean) < 4.5 * math.sqrt(of * mean * (1 - mean))).all()

    near(dropped.sum(), rate, found.size)
    near(dropped.sum(axis=0), rate, len(found))
    near(dropped.sum(axis=1), rate, size)
    for one, other in ((dropped[1:], dropped[:-1]), (dropped[:, 1:], dropped[:, :-1])):
        if one.size:
            near((one & other).sum(), rate**2, one.size)
    again = np.asarray(apply(rngs={"dropout": jax.random.key(4)}))
    near(((again == 0) & dropped).sum(), rate**2, found.size)
    assert (apply(rngs={"dropout": jax.random.key(3)}) == found).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_dropout_passes_the_gradient_of_what_it_kept(dtype):
    module, x = dense.Dropout(rate=0.25), jnp.full((64, 33), 2, dtype)
    run = functools.partial(module.apply, {}, rngs={"dropout": jax.random.key(5)})
    y, back = jax.vjp(lambda x: run(x, deterministic=False), x)
    [gradient] = back(jnp.ones_like(y))
    assert y.dtype == gradient.dtype == dtype
    np.testing.assert_array_equal(2 * gradient, y)


@pytest.mark.parametrize("rate", [0.0, 1e-6])
def test_no_dropout_needs_no_random_numbers(rate):
    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(dense.Dropout(rate=rate).apply({}, x, deterministic=False), x)
    np.testing.assert_array_equal(dense.Dropout(rate=0.5).apply({}, x, deterministic=True), x)
