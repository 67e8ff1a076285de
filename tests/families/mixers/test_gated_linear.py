import functools

import numpy as np
import pytest
from families.mixers import packed_texts
from families.mixers.packed_texts import params_of, sigmoid

H, K, C = 2, 6, 5


def read(gates, q, k, v, x):
    """Returns o_t = q_t S_t, where S_t = diag(alpha_t) S_{t-1} + k_t^T v_t."""
    low, high = gates["layers_0"], gates["layers_1"]
    alpha = sigmoid(x @ low["kernel"] @ high["kernel"] + high["bias"]) ** (1 / 16)
    alpha = np.maximum(alpha, np.exp(-2)).reshape(-1, H, K)
    S, o = np.zeros((H, K, C)), np.zeros((len(x), H, C))
    for t in range(len(x)):
        for h in range(H):
            S[h] = np.diag(alpha[t, h]) @ S[h] + np.outer(k[t, h], v[t, h])
            o[t, h] = q[t, h] @ S[h]
    return o


def naive(p, x, causal=True):
    q, k, v = (np.einsum("TD,DHK->THK", x, p[name]["kernel"]) for name in ("query", "key", "value"))
    o = read(p["decay"], q, k, v, x)
    if not causal:
        o += read(p["backward_decay"], q[::-1], k[::-1], v[::-1], x[::-1])[::-1]
    o = (o - o.mean(-1, keepdims=True)) / np.sqrt(o.var(-1, keepdims=True) + 1e-6)
    o = o * p["norm"]["scale"] + p["norm"]["bias"]
    r = (x @ p["gate"]["kernel"] + p["gate"]["bias"]).reshape(o.shape)
    return np.einsum("THC,HCD->TD", r * sigmoid(r) * o, p["output"]["kernel"])


@functools.cache
def mixer(chunk=8, causal=True):
    return packed_texts.mixer(f"gated_linear(chunk={chunk})", causal)


@pytest.mark.parametrize(
    ("chunk", "causal"), [(8, True), (8, False), (1, True), (5, True), (32, True)]
)
def test_it_is_the_recurrence_of_the_paper(chunk, causal):
    packed_texts.assert_is_the_loop(mixer(chunk, causal), naive)


@pytest.mark.parametrize("bias", [-100.0, 100.0], ids=["strongest", "none"])
def test_long_texts_with_extreme_decays(bias):
    """The strongest decay has factors of exp(64) in a chunk; without one, sums are of all."""
    params = params_of(mixer(32))
    params["decay"]["layers_1"]["bias"] = np.full(H * K, bias, np.float32)  # sigmoid(bias + ...)
    packed_texts.assert_long_texts_are_right(mixer(32), naive, params)


@pytest.mark.slow
def test_memory_grows_with_the_length_not_its_square():
    assert packed_texts.memory(mixer(16), 4096) < 2.2 * packed_texts.memory(mixer(16), 2048)
