"""First values of a layer, and others in their place."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def randomised(variables, seed=0):
    """Normal values everywhere, biases too, which begin as zeros."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda p: jnp.asarray(random.normal(0, 0.2, p.shape), p.dtype), variables)


def assert_glorot_uniform(kernel, fan_in, fan_out):
    bound = math.sqrt(6 / (fan_in + fan_out))
    assert 0.99 * bound < np.abs(kernel).max() <= bound
    assert kernel.std() == pytest.approx(math.sqrt(2 / (fan_in + fan_out)), rel=0.05)
