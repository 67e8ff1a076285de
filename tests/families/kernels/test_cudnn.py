"""Attention by one kernel against the einsums, and what cuDNN's refuses."""

import functools
import importlib.util
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.errors import UserError
from transformer.families.kernels import cudnn
from transformer.models import attention, stack
from transformer.tasks import losses

H, K = 4, 8


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-5), (jnp.bfloat16, 1e-2)])
def test_the_fused_kernel_is_attention_but_for_queries_without_keys(dtype, tolerance):
    """By XLA's form of the same function, because cuDNN's needs a GPU."""
    mask = np.random.default_rng(1).random((2, 5, 7)) < 0.6
    mask[..., 3] = True
    mask[1, 2] = False
    seen = mask.any(axis=-1)[:, :, None, None]
    random = np.random.default_rng(4)
    q, k, v = (
        jnp.asarray(random.standard_normal(shape), dtype)
        for shape in ((2, 5, H, K), (2, H, K, 7), (2, H, 7, K))
    )

    def einsum(q, k, v):
        scores = attention.ScaledDot().apply({}, q, k)
        return attention.attend(scores, mask, v, lambda weights: weights)[0]

    fused = lambda q, k, v: cudnn.fused(q, (k, v), mask, implementation="xla")

    def gradients(function):
        loss = lambda *arrays: jnp.square(jnp.where(seen, function(*arrays), 0)).sum()
        return function(q, k, v) * seen, *tiny.jit(jax.grad(loss, argnums=(0, 1, 2)))(q, k, v)

    for found, expected in zip(gradients(fused), gradients(einsum), strict=True):
        expected = np.asarray(expected, np.float32)
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    "changes",
    [
        {"score": "additive"},
        {"attention_dropout_rate": 0.1},
        {"positions": "alibi"},
        {"key_size": 12, "value_size": 12},
        {"value_size": 16},
    ],
)
def test_cudnn_is_refused_what_it_does_not_have(use_kernels, changes):
    """Before training: wherever the model is traced."""
    use_kernels("cudnn")
    inputs = tiny.batch([tiny.pairs()[:2]], 8, 12)["inputs"]
    fields = {"key_size": 8, "value_size": 8}
    tiny.parameters(tiny.model(**fields), inputs)
    with pytest.raises(UserError, match=r"kernels='cudnn' needs config.model.score='scaled_dot', "):
        tiny.parameters(tiny.model(**fields | changes), inputs)


@pytest.mark.parametrize(
    ("dtype", "T", "S", "plugin", "found"),
    [
        (jnp.float32, 4, 6, "jax", "found float32, 4 queries, 6 keys and its CUDA plugin"),
        (jnp.bfloat16, 5, 6, "jax", "found bfloat16, 5 queries, 6 keys"),
        (jnp.bfloat16, 4, 7, "jax", "found bfloat16, 4 queries, 7 keys"),
        (jnp.bfloat16, 4, 6, "no_module", "and no CUDA plugin"),
    ],
)
def test_cudnn_needs_bfloat16_even_lengths_and_a_plugin(monkeypatch, dtype, T, S, plugin, found):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: find(plugin))
    q, k, v = (jnp.zeros(shape, dtype) for shape in ((1, T, H, K), (1, H, K, S), (1, H, S, K)))
    with pytest.raises(UserError, match=found):
        cudnn.by_cudnn(q, (k, v), jnp.ones((1, T, S), bool))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"positions": "rotary"}, {"mixer": "grouped_query(num_key_heads=1)"}]
)
def test_a_model_trains_by_the_kernel_as_by_the_einsum(use_kernels, monkeypatch, changes):
    """By XLA's form of the kernel, and in float32. Without training weights are sown as ever."""
    by_xla = mock.Mock(side_effect=functools.partial(cudnn.fused, implementation="xla"))
    monkeypatch.setattr(cudnn, "by_cudnn", by_xla)
    batch = tiny.batch([tiny.pairs()[:2], tiny.pairs()[2:]], 8, 12)
    model = tiny.model(num_layers=1, **{"key_size": 8, "value_size": 8, **changes})
    params = tiny.parameters(model, batch["inputs"])
    options = {"label_smoothing": 0.1, "smoothed_over": "all_classes", "blocks": 1}
    loss = functools.partial(losses.token_loss, model=model, rng=jax.random.key(0), **options)
    gradient = tiny.jit(jax.value_and_grad(lambda p: loss(p, batch)["loss"]))

    use_kernels("tuned")
    expected = gradient(params)
    assert not by_xla.called
    use_kernels("cudnn")
    by_kernel = gradient(params)  # the same jitted function, traced again
    assert by_xla.call_count >= 3 * model.options.num_layers
    for one, other in zip(*map(jax.tree.leaves, (by_kernel, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    apply = functools.partial(model.apply, train=False, mutable="intermediates")
    _, sown = tiny.jit(apply)({"params": params}, **batch["inputs"])
    assert stack.stacked_weights(sown["intermediates"]).keys() == {"encoder", "decoder", "cross"}
