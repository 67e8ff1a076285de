"""Each mixer of the registry is held to what transformer/models/boxes.py says of a mixer.

Here it is alone, over more positions than a window or a chunk has; test_parts.py and test_models.py
check small models with it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import tables
from conformance.mixing import LONG, D, begin, check_steps, distance, mix, row, step
from conformance.tiny_models import PARTS
from helpers import tiny
from helpers.cases import slow_but
from helpers.layers import products
from jax.sharding import NamedSharding, PartitionSpec

from transformer.models import boxes

TEXTS = (33, 25)  # lengths of the texts of a row; padding is behind them


def cases(*needed):
    """Makes a test one of each mixer that says no to none of `needed`; most are slow."""
    names = [x for x in tables.parts("mixer") if all(can(x, what) for what in needed)]
    return pytest.mark.parametrize("name", slow_but(names, "mixer/attention"))


def can(name, what):
    [mixer] = boxes.parse("mixer", PARTS[name])
    return getattr(mixer.code, what, True)


@functools.cache
def mixer_of(name, causal=True, dtype="float32"):
    given = {"options": tiny.model(num_layers=1).options, "causal": causal}
    return boxes.part("mixer", PARTS[name], dtype=jnp.dtype(dtype), **given)()


@functools.cache
def params_of(name, causal=True):
    mixer, (x, view) = mixer_of(name, causal), row(TEXTS)
    init = lambda key: mixer.init(key, x, view, train=False)
    first, random = tiny.jit(init)(jax.random.key(0))["params"], np.random.default_rng(0)
    # With noise on the first values, because biases begin as zeros.
    return jax.tree.map(lambda p: np.float32(p + 0.2 * random.standard_normal(p.shape)), first)


@cases("takes_packed_rows")
@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_texts_of_a_row_are_apart(name, causal):
    if not causal and not can(name, "both_ways"):
        return
    mixer, params = mixer_of(name, causal), params_of(name, causal)
    x, view = row(TEXTS, causal)
    y = mix(mixer, params, x, view)
    assert np.isfinite(y).all(), f"{name}: y is non-finite"
    start = 0
    for length in TEXTS:
        alone = np.zeros_like(x)
        alone[:, :length] = x[:, start : start + length]
        expected = mix(mixer, params, alone, row([length], causal)[1])[:, :length]
        assert distance(y[:, start : start + length], expected) < 2e-5, (
            f"{name}: y of a text changes with the text before or after it in its row, in "
            f"{'a decoder' if causal else 'an encoder (causal=False)'}"
        )
        start += length


@cases()
def test_a_row_without_segments_is_one_text(name):
    """As in a step, or of images."""
    causal = not can(name, "both_ways")
    mixer, params, (x, view) = mixer_of(name, causal), params_of(name, causal), row([LONG], causal)
    y = mix(mixer, params, x, view._replace(segments_BT=None))
    assert distance(y, mix(mixer, params, x, view)) < 1e-5, (
        f"{name}: y of a row with one text changes without its segments (segments_BT is None)"
    )


@cases()
def test_steps_are_all_positions_at_once(name):
    """Of one position from the start, of many behind them, of one behind many, and so on."""
    check_steps(mixer_of(name), params_of(name), [*[1] * 7, 40, 1, 20, 1], name)


@cases()
def test_gradients_are_finite_and_stay_in_their_text(name):
    mixer, params, (x, view) = mixer_of(name), params_of(name), row(TEXTS)

    @tiny.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient(params, x):
        y = mixer.apply({"params": params}, x, view, train=False)
        return (y[:, : TEXTS[0]] ** 2).sum()

    by_params, by_x = gradient(params, x)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves((by_params, by_x))), (
        f"{name}: a gradient is non-finite"
    )
    unused = [p for p, g in jax.tree.leaves_with_path(by_params) if not np.abs(g).max() > 1e-7]
    assert not unused, f"{name}: {jax.tree_util.keystr(unused[0])} has no gradient"
    if can(name, "takes_packed_rows"):
        assert not np.any(by_x[:, TEXTS[0] :]), f"{name}: a text has a gradient from another one"


@cases()
def test_bfloat16_is_close_to_float32(name):
    x, view = row(TEXTS)
    high = mix(mixer_of(name), params_of(name), x, view)[:, : sum(TEXTS)]
    low = mix(mixer_of(name, dtype="bfloat16"), params_of(name), x.astype(jnp.bfloat16), view)
    assert low.dtype == jnp.bfloat16, f"{name}: y in bfloat16 is {low.dtype}"
    error = np.asarray(low[:, : sum(TEXTS)], np.float32) - high
    share = np.sqrt((error**2).mean()) / np.std(high)
    assert share < 0.03, f"{name}: y in bfloat16 is {share:.1%} off"


@cases()
def test_a_step_keeps_the_types_of_the_state(name):
    """As a loop of decoding needs, which keeps sums in float32."""
    arguments = mixer_of(name, dtype="bfloat16"), params_of(name)
    x_BWTD = jnp.zeros((2, 3, 2, D), jnp.bfloat16)
    kept = begin(*arguments, x_BWTD)
    y_BWTD, after = step(*arguments, x_BWTD, 0, kept)
    assert y_BWTD.dtype == jnp.bfloat16, f"{name}: y of a step in bfloat16 is {y_BWTD.dtype}"
    types = lambda kept: [f"{x.dtype}{x.shape}" for x in jax.tree.leaves(kept.states)]
    assert types(after) == types(kept), (
        f"{name}: the state in bfloat16 is {types(kept)}, behind a step {types(after)}"
    )


@cases()
def test_rows_on_eight_devices_are_those_on_one(name):
    mixer, params, (_, view) = mixer_of(name), params_of(name), row(TEXTS)
    rows = [row(TEXTS, seed=seed)[0] for seed in range(8)]
    expected = np.concatenate([mix(mixer, params, x, view) for x in rows])
    views = jax.tree.map(lambda a: jnp.broadcast_to(a, (8, *a.shape[1:])), view)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    by_rows = NamedSharding(mesh, PartitionSpec("data"))
    sharded = jax.device_put((np.concatenate(rows), views), by_rows)
    assert distance(mix(mixer, params, *sharded), expected) < 2e-5, (
        f"{name}: y changes with the number of devices"
    )


@cases()
def test_multiply_adds_are_those_of_its_products(name):
    """Within a fifth: a program also multiplies what its masks leave out."""
    for causal in (True, False) if can(name, "both_ways") else (True,):
        mixer, params = mixer_of(name, causal), params_of(name, causal)
        call = functools.partial(mixer.apply, train=False)
        program = jax.make_jaxpr(call)({"params": params}, *row([LONG], causal))
        counted = products(program.jaxpr) / 2 / LONG
        assert mixer.multiply_adds(LONG) == pytest.approx(counted, rel=0.2), (
            f"{name}: multiply_adds({LONG}) with causal={causal} is {mixer.multiply_adds(LONG)}, "
            f"products are {counted:.0f}"
        )
