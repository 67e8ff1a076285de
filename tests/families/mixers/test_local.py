"""Restricted self-attention against attention with a mask; rows and steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.mixing import check_steps, row
from families.mixers import packed_texts
from families.mixers.packed_texts import RELATIVE, SCORED, params_of
from families.mixers.packed_texts import mix_and_sow as mix
from helpers import tiny
from helpers.layers import intermediates, products

from transformer.models import cache

H, K, C = 2, 6, 5
BOTH = pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])


def mixer(pattern="local(window=5)", *options, **changes):
    return packed_texts.mixer(pattern, *options, **changes)


@BOTH
@pytest.mark.parametrize(
    ("window", "room", "changes"),
    [
        *((1, 97, {}), (4, 97, {}), (16, 20, {}), (23, 97, {})),
        *((5, 70, changes) for changes in SCORED),
    ],
    ids=str,
)
def test_it_is_attention_with_a_mask(window, room, changes, causal):
    """Of two texts, the first of which ends inside a block; in short rows there are no blocks."""
    lengths = [room // 2, room // 3]
    x, view = row(lengths, causal, room)
    module = mixer(f"local(window={window})", causal, **changes)
    params = params_of(module)
    places = view.query_positions_BT
    near = abs(places[:, :, None] - places[:, None, :]) < window
    masked = view._replace(mask_BTS=view.mask_BTS & near)
    expected, _ = mix(mixer("attention", causal, **changes), params, x, masked)
    y, _ = mix(module, params, x, view)
    real = sum(lengths)
    np.testing.assert_allclose(y[:, :real], expected[:, :real], atol=5e-6)
    assert np.isfinite(y).all()


def test_one_row_of_a_view_is_that_of_all():
    module, (x, view) = mixer(causal=False), row([70], causal=False)
    params, rows = params_of(module), np.concatenate([x, -x, 2 * x])
    expected = mix(module, params, rows, jax.tree.map(lambda a: jnp.repeat(a, 3, axis=0), view))[0]
    np.testing.assert_array_equal(mix(module, params, rows, view)[0], expected)
    # As in vision.py: one mask for all queries, too.
    all_of_it = view._replace(segments_BT=None, mask_BTS=jnp.ones((1, 1, 70), bool))
    np.testing.assert_array_equal(mix(module, params, rows, all_of_it)[0], expected)


@BOTH
def test_time_and_memory_are_linear_in_the_length(causal):
    module, window = mixer("local(window=16)", causal), 16
    params = params_of(module)

    def program(length):
        x, view = row([length], causal, length)
        loss = lambda params: module.apply({"params": params}, x, view, train=False).sum()
        return jax.make_jaxpr(jax.grad(loss))(params).jaxpr

    short, long = program(1024), program(2048)
    assert max(x.size for x in intermediates(short)) < 1024**2 / 4
    assert products(long) == 2 * products(short)
    largest = [max(x.size for x in intermediates(jaxpr)) for jaxpr in (short, long)]
    assert largest[1] == 2 * largest[0]
    keys = window * (2 if causal else 3)
    assert module.multiply_adds(2048) == mixer("attention").multiply_adds(keys)
    assert module.multiply_adds(20) == mixer("attention").multiply_adds(20)


def test_a_compiled_step_has_no_mask_of_all_positions():
    """Where no mixer reads that of the view, though activations are computed again."""
    model = tiny.model(mixer="local(window=16)", num_layers=2, remat=True)
    inputs = tiny.batch([tiny.pairs([(1024, 8)])[0:1]], 1024, 8)["inputs"]
    source = [inputs[name] for name in ("source", "source_positions", "source_segments")]
    shapes = tiny.shapes(model, tiny.unpacked(tiny.pairs())["inputs"])

    def loss(params, source):
        encode = functools.partial(model.apply, method="encode", train=True)
        return encode({"params": params}, *source).sum()

    assert "1024,1024]" not in jax.jit(jax.grad(loss)).lower(shapes, source).compile().as_text()


def test_only_short_rows_sow_weights():
    module = mixer()
    params = params_of(module)
    _, weights = mix(module, params, *row([20], room=32))
    assert weights.shape == (1, H, 32, 32)
    t, s = np.mgrid[:32, :32]
    seen = (t < 20) & (s <= t) & (t - s < 5)
    np.testing.assert_array_equal(np.asarray(weights) > 0, np.broadcast_to(seen, weights.shape))
    assert mix(module, params, *row([20], room=33))[1] is None


def test_weights_of_blocks_are_dropped_out():
    module, (x, view) = mixer(attention_dropout_rate=0.5), row([70])
    drop = functools.partial(module.apply, {"params": params_of(module)}, x, view, train=True)
    apply = tiny.jit(lambda rngs: drop(rngs=rngs))
    first, again, other = (apply({"dropout": jax.random.key(i)}) for i in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "changes"),
    [*((window, {}) for window in (1, 64)), *((5, changes) for changes in RELATIVE)],
    ids=str,
)
def test_steps_of_more_than_the_window_are_the_whole_rows(window, changes):
    """The ring alone is kept."""
    module = mixer(f"local(window={window})", **changes)
    kept = check_steps(module, params_of(module), [7, 1, 7, 3, 30, 1])
    assert kept.states[0].keys_BHKN.shape == (2, H, K, window * 3)
    assert kept.states[0].values_BHNC.shape == (2, H, window * 3, C)
    assert cache.reorder(kept, jnp.zeros((2, 3), int)).states[0] is kept.states[0]
