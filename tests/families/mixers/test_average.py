"""The average attention network against its equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.layers import randomised

from transformer.families.mixers import average
from transformer.models import masks

D, T = 6, 5


@pytest.mark.parametrize("causal", [True, False])
def test_an_average_is_gated(causal):
    x = np.random.default_rng(0).standard_normal((1, T, D)).astype(np.float32)
    mixer = average.Average(tiny.model(d_model=D).options, causal, jnp.float32)
    view = masks.self_view(jnp.arange(T)[None], jnp.ones((1, T), int), causal=causal)
    variables = randomised(mixer.init(jax.random.key(0), x, view, train=False))
    inner = jax.tree.map(np.float64, variables["params"]["inner"])
    for t in range(T):
        mean = x[0, : t + 1].mean(axis=0) if causal else x[0].mean(axis=0)
        logits = np.concatenate([x[0, t], mean]) @ inner["kernel"] + inner["bias"]
        i, f = np.split(1 / (1 + np.exp(-logits)), 2)
        y = mixer.apply(variables, x, view, train=False)[0, t]
        np.testing.assert_allclose(y, i * x[0, t] + f * mean, atol=1e-5)
