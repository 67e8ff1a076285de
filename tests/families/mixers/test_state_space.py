import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.mixing import D, mix, row
from families.mixers import packed_texts
from families.mixers.packed_texts import params_of, sigmoid
from helpers import tiny

from transformer.families.mixers import state_space

F = 2 * D
softplus = lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
silu = lambda x: x * sigmoid(x)


def read(p, u):
    """The convolution, and algorithm 2: y_t = C_t h_t + D v_t."""
    width, N, R = len(p["taps"]), len(p["a_log"]), len(p["delta"]["kernel"])
    before = np.concatenate([np.zeros((width - 1, F)), u])
    h, y = np.zeros((F, N)), np.zeros_like(u)
    for t in range(len(u)):
        v = silu(sum(p["taps"][i] * before[t + i] for i in range(width)) + p["taps_bias"])
        low, B, C = np.split(v @ p["selection"]["kernel"], [R, R + N])
        delta = softplus(low @ p["delta"]["kernel"] + p["delta_bias"])
        A = -np.exp(p["a_log"]).T
        h = np.exp(delta[:, None] * A) * h + np.outer(delta * v, B)
        y[t] = h @ C + p["skip"] * v
    return y


def naive(p, x, causal=True):
    u, z = np.split(x @ p["inner"]["kernel"], 2, axis=1)
    y = read(p["forward"], u)
    if not causal:
        y += read(p["backward"], u[::-1])[::-1]
    return (y * silu(z)) @ p["outer"]["kernel"]


@functools.cache
def mixer(state_size=3, width=4, causal=True):
    pattern = f"state_space(state_size={state_size},expand=2,width={width})"
    return packed_texts.mixer(pattern, causal)


@pytest.mark.parametrize(("width", "causal"), [(4, True), (1, True), (4, False)])
def test_it_is_the_recurrence_of_the_paper(width, causal):
    packed_texts.assert_is_the_loop(mixer(width=width, causal=causal), naive)


def test_first_values():
    """Delta is log-uniform from 0.001 to 0.1, A is -1 to -N."""
    p = packed_texts.mixer("state_space(state_size=5,expand=200,width=4)")
    p = params_of(p, noise=0)["forward"]
    delta = np.log10(softplus(p["delta_bias"].astype(np.float64)))
    assert -3 - 1e-3 < delta.min() < -2.9
    assert -1.005 < delta.max() < -1 + 1e-3
    np.testing.assert_allclose(np.quantile(delta, [0.25, 0.5, 0.75]), [-2.5, -2, -1.5], atol=0.1)
    np.testing.assert_allclose(-np.exp(p["a_log"][:, 7]), [-1, -2, -3, -4, -5], rtol=1e-6)
    assert np.abs(p["taps"]).max() == pytest.approx(0.5, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("T", [1, 2, 13])
def test_by_pairs_is_by_position(T):
    """With decays to 0, and texts that start."""
    B, N, random = 2, 3, np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(random.standard_normal(shape), jnp.float32)
    floats = jnp.abs(normal(B, T, F)) * 20, normal(B, T, F), normal(B, T, N), normal(B, T, N)
    starts = jnp.asarray(random.random((B, T)) < 0.2)

    def run(read, a_BNF, h_BNF, *floats):
        h, y = read(a_BNF, h_BNF, (*floats, starts))
        return jnp.vdot(y, jnp.cos(jnp.arange(y.size))) + jnp.sin(h).sum(), (h, y)

    run = jax.value_and_grad(run, argnums=(1, 2, 3, 4, 5, 6), has_aux=True)
    run = tiny.jit(run, static_argnums=0)
    arguments = -jnp.abs(normal(B, N, F)), normal(B, N, F), *floats
    actual = run(state_space.by_pairs, *arguments)
    packed_texts.assert_close(actual, run(state_space.by_position, *arguments))


@pytest.mark.parametrize(("platform", "loops"), [("cpu", 2), ("cuda", 1)])
def test_a_gpu_has_no_loop_over_positions(platform, loops):
    program = jax.jit(functools.partial(mix.__wrapped__, mixer()))
    lowered = jax.export.export(program, platforms=[platform])(params_of(mixer()), *row([36]))
    assert lowered.mlir_module().count("stablehlo.while") == loops


@pytest.mark.slow
@pytest.mark.parametrize("read", [state_space.by_position, state_space.by_pairs])
def test_states_of_all_positions_are_never_there_at_once(read, monkeypatch):
    monkeypatch.setattr(state_space, "read_chunk", read)
    T, N = 2048, 64
    short, long = (packed_texts.memory(mixer(state_size=N), length) for length in (T, 2 * T))
    assert long - short < T * N * F * 4 / 2


def test_long_texts_with_strong_decays():
    params = params_of(mixer())
    params["forward"]["delta_bias"] = np.linspace(-20, 60, F, dtype=np.float32)
    packed_texts.assert_long_texts_are_right(mixer(), naive, params)
