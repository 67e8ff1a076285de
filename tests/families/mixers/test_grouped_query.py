"""Grouped-query attention against attention with repeated keys."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.mixing import row
from families.mixers import packed_texts
from families.mixers.packed_texts import SCORED, params_of
from families.mixers.packed_texts import mix_and_sow as mix
from helpers.layers import intermediates

from transformer.errors import UserError
from transformer.families.parts import biases
from transformer.models import cache

D, H, K, C = 16, 4, 6, 5


def mixer(pattern, causal=True, **changes):
    return packed_texts.mixer(pattern, causal, num_heads=H, **changes)


def repeated(params, times):
    """Returns the params of attention in which each head of keys is there so many times."""
    # Kernels of keys are [D, H, K], their biases [H, K]; tables and params of scores [H, ...], but
    # for scales [K].
    axis = lambda path, p: p.ndim - 2 if path[0].key in ("key", "value") else 0
    repeat = lambda path, p: np.repeat(p, 1 if path[-1].key == "scale" else times, axis(path, p))
    kept = {name: params[name] for name in ("query", "output")}
    return jax.tree_util.tree_map_with_path(repeat, {**params, **kept}) | kept


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("groups", "changes"),
    [
        *((groups, {"attention_bias": True}) for groups in (1, 2, 4)),
        *((2, changes) for changes in SCORED),
    ],
    ids=str,
)
def test_it_is_attention_whose_keys_are_repeated(monkeypatch, groups, changes, causal):
    """Shazeer 2019, section 3, where groups = 1; heads in a row are a group."""
    x, view = row([4, 3], causal=True, room=9)
    module = mixer(f"grouped_query(num_key_heads={groups})", causal, **changes)
    if not causal:  # a mask that is not one for all queries, as in vision.py
        view = view._replace(mask_BTS=view.mask_BTS[:, -3:-2] | True)
    params, times = params_of(module), H // groups
    actual = mix(module, params, x, view)
    slopes = biases.alibi
    repeat = lambda q, k, heads: jnp.repeat(slopes(q, k, heads // times), times, axis=1)
    monkeypatch.setattr(biases, "alibi", repeat)
    expected = mix(mixer("attention", causal, **changes), repeated(params, times), x, view)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=3e-6), actual, expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_cache_has_the_heads_of_keys_only_and_a_step_repeats_none(groups):
    x, room, beams = np.ones((2, 3, D), np.float32), 64, 3
    module = mixer(f"grouped_query(num_key_heads={groups})")
    apply = functools.partial(module.apply, {"params": params_of(module)})
    state = apply(x[:, :1], room, beams, method="empty_state")
    assert state.keys_BHKN.shape == (2, groups, K, room * beams)
    assert state.values_BHNC.shape == (2, groups, room * beams, C)

    def step(x_BQD, state):
        tokens, ancestry = jnp.zeros((2, beams, 1), int), cache.empty_ancestry(2, room, beams)
        return apply(x_BQD, cache.queries(tokens, 5, ancestry), state, method="step")

    shapes = {x.shape for x in intermediates(jax.make_jaxpr(step)(x[:, :beams], state).jaxpr)}
    assert state.keys_BHKN.shape in shapes
    assert not {(2, H, K, room * beams), (2, H, room * beams, C)} & shapes
    of_scores = 2 * H * beams * room * beams
    assert max(np.prod(shape) for shape in shapes) == max(of_scores, state.keys_BHKN.size)


def test_groups_divide_the_heads():
    with pytest.raises(UserError, match=r"mixer\.num_key_heads=3 must divide .*num_heads=4"):
        params_of(mixer("grouped_query(num_key_heads=3)"))
