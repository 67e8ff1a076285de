"""The stacks by themselves: a decoder without a memory is causal, and has cached steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from helpers import tiny
from helpers.layers import randomised

from transformer.models import cache as kv_cache
from transformer.models import stack
from transformer.models.attention import View

B, T, D, W = 2, 5, 16, 2


def decoder_only():
    options = tiny.model(final_norm=True).options
    sublayers = stack.sublayers(options, "float32")
    return stack.Stack(options=options, sublayers=sublayers)


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)


@pytest.fixture(scope="module")
def variables(inputs):
    init = lambda x: decoder_only().init(jax.random.key(0), x, causal(), train=False)
    return randomised(jax.jit(init)(inputs))


def causal():
    positions_BT = jnp.broadcast_to(jnp.arange(T), (B, T))
    return View(jnp.tril(jnp.ones((B, T, T), bool)), positions_BT, positions_BT)


def full_pass(variables, x):
    run = lambda x: decoder_only().apply(variables, x, causal(), train=False)
    return jax.jit(run)(x)


def test_a_decoder_without_cross_attention_sees_earlier_positions_only(variables, inputs):
    names = {part for path in flatten_dict(variables) for part in path}
    assert "self_attention" in names
    assert "cross_attention" not in names
    changed = inputs.copy()
    changed[:, 3] += 1
    before, after = full_pass(variables, inputs), full_pass(variables, changed)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (np.abs(before[:, 3:] - after[:, 3:]).max(axis=-1) > 1e-3).all()


def test_cached_steps_equal_the_full_pass(variables, inputs):
    """Two beams, of which each step the second goes on from the first."""
    decoder, parents = decoder_only(), jnp.array([[0, 0]] * B)
    cache = decoder.apply(variables, inputs[:, :1], T, W, method="empty_cache")
    expected = full_pass(variables, inputs)

    @jax.jit
    def step(x_BQD, cache, position):
        ancestry_BWP = kv_cache.write_ancestry(cache.ancestry_BWP, position, 1)
        view = View(
            kv_cache.history_mask(ancestry_BWP, position[None]),
            jnp.broadcast_to(position, (B, W)),
            kv_cache.slot_positions(ancestry_BWP),
        )
        run = lambda self: self.step(x_BQD, view, None, None, cache.keys_values, position * W)
        output, keys_values = decoder.apply(variables, method=run)
        return output, kv_cache.KVCache(keys_values, ancestry_BWP)

    for position in range(T):
        # Beam 1 gets another input, which must not show once it goes on from beam 0.
        x_BQD = np.stack([inputs[:, position], -inputs[:, position]], axis=1)
        output, cache = step(x_BQD, cache, jnp.int32(position))
        np.testing.assert_allclose(output[:, 0], expected[:, position], atol=1e-5)
        cache = kv_cache.reorder(cache, parents)
