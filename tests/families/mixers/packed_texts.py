"""Mixers alone: with random params, on rows of packed texts, beside a loop over one text."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from conformance.tiny_models import PARTS
from helpers import tiny

from transformer.models import boxes, masks

D = tiny.ARGUMENTS["d_model"]
LENGTHS = [(7, 1, 9, 17), (20, 13), (0, 5, 29)]  # of the texts of each row


# Keys of config.model that make attention one of relative positions.
RELATIVE = [{"positions": PARTS[f"positions/{x}"]} for x in ("shaw", "rotary", "alibi", "t5")]


def mixer(pattern, causal=True, dtype="float32", **changes):
    options = tiny.model(num_layers=1, mixer=pattern, **changes).options
    given = {"options": options, "causal": causal, "dtype": jnp.dtype(dtype)}
    return boxes.part("mixer", pattern, **given)()


def rows(lengths=LENGTHS, room=36):
    """Returns (x, segments); padding is behind the texts."""
    segments = np.zeros((len(lengths), room), np.int32)
    for row, of_row in zip(segments, lengths, strict=True):
        row[: sum(of_row)] = np.repeat(1 + np.arange(len(of_row)), of_row)
    x = np.random.default_rng(0).standard_normal((*segments.shape, D)).astype(np.float32)
    return x, segments


def params_of(mixer, noise=0.3):
    """Returns first values with noise, because some biases are zeros at first."""
    inputs, random = (np.zeros((1, 1, D)), np.ones((1, 1), np.int32)), np.random.default_rng(0)
    init = lambda key: mixer.init(key, *_call(mixer, *inputs), train=False)["params"]
    add = lambda p: np.float32(p + noise * random.standard_normal(p.shape))
    return jax.tree.map(add, tiny.jit(init)(jax.random.key(0)))


def apply(mixer, params, x, segments, **options):
    options = {"train": False, **options}
    return mixer.apply({"params": params}, *_call(mixer, x, segments), **options)


mix = functools.partial(tiny.jit, static_argnums=0)(apply)


@functools.partial(tiny.jit, static_argnums=0)
def mix_and_sow(mixer, params, x, view):
    """Returns the output, and the attention weights that are sown, if any are."""
    apply = functools.partial(mixer.apply, mutable="intermediates", train=False)
    y, sown = apply({"params": params}, x, view)
    return y, sown.get("intermediates", {}).get("attention", [None])[0]


def differentiate(mixer, params, x, segments):
    """Returns the gradients of params and x, for a sum with a weight of its own for each output."""

    def loss(params, x):
        y = apply(mixer, params, x, segments)
        return jnp.vdot(y, jnp.cos(jnp.arange(y.size)))

    return jax.grad(loss, argnums=(0, 1))(params, x)


gradients = functools.partial(tiny.jit, static_argnums=0)(differentiate)


def memory(mixer, length):
    """The bytes of the temporary arrays that the gradient of one text needs."""
    inputs = np.zeros((1, length, D), np.float32), np.ones((1, length), np.int32)
    # A function of its own, because jit remembers what it has traced.
    program = jax.jit(lambda params, *inputs: differentiate(mixer, params, *inputs))
    compiled = program.lower(params_of(mixer), *inputs).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def _call(mixer, x, segments):
    places = jnp.broadcast_to(jnp.arange(x.shape[1]), x.shape[:2])
    view = masks.self_view(places, jnp.asarray(segments), causal=mixer.causal)
    return jnp.asarray(x, jnp.float32), view


def one_by_one(naive, params, x, segments):
    """Applies naive(params, x [T, D]) to each text, in float64; padding is NaN."""
    wide = lambda tree: jax.tree.map(lambda p: np.asarray(p, np.float64), tree)
    y = np.full(x.shape, np.nan)
    for row in range(len(x)):
        for text in range(1, segments[row].max() + 1):
            here = row, segments[row] == text
            if here[1].any():
                y[here] = naive(wide(params), wide(x[here]))
    return y


def assert_is_the_loop(mixer, naive):
    """Compares with naive(params, x, causal) of each text."""
    (x, segments), params = rows(), params_of(mixer)
    naive = functools.partial(naive, causal=mixer.causal)
    expected = one_by_one(naive, params, x, segments)
    y = mix(mixer, params, x, segments)
    assert_close(y[segments > 0], expected[segments > 0])
    assert np.isfinite(y).all()


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
