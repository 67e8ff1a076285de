"""Residual connections against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers import tiny

from transformer.models import boxes


def test_rezero_is_the_identity_at_first_and_adds_a_share():
    """Bachlechner et al. 2020, equation 2."""
    module = boxes.part("residual", "rezero", options=tiny.model().options, dtype=jnp.float32)()
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    run = lambda module, x: module(x, jnp.sin, train=False)
    first, variables = module.init_with_output(jax.random.key(0), x, method=run)
    np.testing.assert_array_equal(first, x)
    assert variables == {"params": {"alpha": 0.0}}
    actual = module.apply({"params": {"alpha": jnp.float32(0.7)}}, x, method=run)
    np.testing.assert_allclose(actual, x + 0.7 * np.sin(x), atol=1e-6)
