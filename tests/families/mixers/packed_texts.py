"""Mixers alone: with random params, on rows of packed texts, beside a loop over one text."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from conformance.mixing import LONG, mix, row
from conformance.tiny_models import PARTS
from helpers import tiny

from transformer.models import boxes

# Keys of config.model that make attention one of relative positions.
RELATIVE = [{"positions": PARTS[f"positions/{x}"]} for x in ("shaw", "rotary", "alibi", "t5")]
# The same, each with another score than the paper's.
SCORES = ("general", "cosine", "dot", "normalised", "additive")
SCORED = [{"score": x, **more} for x, more in zip(SCORES, [*RELATIVE, {}], strict=True)]


def mixer(pattern, causal=True, dtype="float32", **changes):
    options = tiny.model(num_layers=1, mixer=pattern, **changes).options
    given = {"options": options, "causal": causal, "dtype": jnp.dtype(dtype)}
    return boxes.part("mixer", pattern, **given)()


def params_of(mixer, noise=0.3):
    """Returns first values with noise, because some biases are zeros at first."""
    random = np.random.default_rng(0)
    add = lambda p: np.float32(p + noise * random.standard_normal(p.shape))
    return jax.tree.map(add, first_values(mixer))


@functools.partial(tiny.jit, static_argnums=0)
def first_values(mixer):
    inputs = row([1], mixer.causal, room=1)
    return mixer.init(jax.random.key(0), *inputs, train=False)["params"]


@functools.partial(tiny.jit, static_argnums=0)
def mix_and_sow(mixer, params, x, view):
    """Returns the output, and the attention weights that are sown, if any are."""
    apply = functools.partial(mixer.apply, mutable="intermediates", train=False)
    y, sown = apply({"params": params}, x, view)
    return y, sown.get("intermediates", {}).get("attention", [None])[0]


def differentiate(mixer, params, x, view):
    """Returns the gradients of params and x, for a sum with a weight of its own for each output."""

    def loss(params, x):
        y = mixer.apply({"params": params}, x, view, train=False)
        return jnp.vdot(y, jnp.cos(jnp.arange(y.size)))

    return jax.grad(loss, argnums=(0, 1))(params, x)


gradients = functools.partial(tiny.jit, static_argnums=0)(differentiate)


def memory(mixer, length):
    """The bytes of the temporary arrays that the gradient of one text needs."""
    inputs = row([length], mixer.causal, length)
    # A function of its own, because jit remembers what it has traced.
    program = jax.jit(lambda params, *inputs: differentiate(mixer, params, *inputs))
    shapes = jax.eval_shape(functools.partial(first_values.__wrapped__, mixer))
    return program.lower(shapes, *inputs).compile().memory_analysis().temp_size_in_bytes


def assert_is_the_loop(mixer, naive, lengths=(7, 1, 9, 17, 20, 13), room=LONG, params=None):
    """Compares with naive(params, x [T, D], causal) of each text, in float64."""
    (x, view), params = row(lengths, mixer.causal, room), params or params_of(mixer)
    wide = lambda tree: jax.tree.map(lambda p: np.asarray(p, np.float64), tree)
    naive = functools.partial(naive, wide(params), causal=mixer.causal)
    texts = np.split(wide(x[0]), np.cumsum(lengths))[:-1]  # the last is padding
    y = mix(mixer, params, x, view)
    assert_close(y[0, : sum(lengths)], np.concatenate([naive(text) for text in texts]))
    assert np.isfinite(y).all()


def assert_long_texts_are_right(mixer, naive, params):
    """Compares a text of 3000 positions; its gradients are finite."""
    assert_is_the_loop(mixer, naive, [3000], 3000, params)
    for gradient in jax.tree.leaves(gradients(mixer, params, *row([3000], mixer.causal, 3000))):
        assert np.isfinite(gradient).all()


def assert_close(actual, expected, share=1e-5):
    """Compares arrays of two trees, up to a share of each array's largest value."""
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=share * np.abs(y).max())


def taps(x, width, causal):
    """What each position of a text [T, D] reads, [T, width, D]: zeros beyond the ends."""
    before = width - 1 if causal else width // 2
    padded = np.pad(x, ((before, width - 1 - before), (0, 0)))
    return np.stack([padded[j : j + len(x)] for j in range(width)], axis=1)


def linear(params, x):
    return x @ params["kernel"] + params["bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
