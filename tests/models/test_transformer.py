"""The Transformer: what may depend on what, decoding against the full pass, options, sizes."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import decoding, tiny_models
from flax.traverse_util import flatten_dict
from helpers import tiny
from helpers.tiny import logits

from transformer.models import cache as models_cache
from transformer.models import layer_options

INPUTS = tiny.unpacked(tiny.pairs())["inputs"]


def test_memory_belongs_to_sentences_and_cache_to_beams():
    """Two sentences, three beams, two heads, room for nine tokens."""
    memory, cache = decoding.begin(tiny_models.case("transformer"), 9)
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(memory))
    for leaf in jax.tree.leaves(cache):
        keys_or_values = leaf.shape[:2] == (2, 2) and leaf.shape[2:].count(9 * 3) == 1
        assert keys_or_values or leaf.shape == (2, 3, 9)
    # Reordered, keys and values stay: which beam wrote them is an integer a position.
    after = models_cache.reorder(cache, np.array([[2, 2, 0], [1, 0, 1]]))
    leaves = [jax.tree.leaves(x.states) for x in (after, cache)]
    assert all(new is old for new, old in zip(*leaves, strict=True))


@pytest.mark.parametrize("kind", ["rotary", "shaw", "alibi", "t5"])
def test_relative_positions_of_each_side_may_be_moved(kind):
    """Only self-attention knows them: cross-attention sees no distance between the two sides."""
    model = tiny.model(positions=tiny_models.PARTS[f"positions/{kind}"])
    parameters = tiny.parameters(model, INPUTS)
    expected = logits(model, parameters, INPUTS)
    for side, by in (("source", 5), ("target", 3)):
        moved = INPUTS | {f"{side}_positions": INPUTS[f"{side}_positions"] + by}
        np.testing.assert_allclose(logits(model, parameters, moved), expected, atol=1e-5)
        other = INPUTS | {f"{side}_positions": 2 * INPUTS[f"{side}_positions"]}
        assert np.abs(logits(model, parameters, other) - expected).max() > 1e-2


def test_key_and_value_size_default_to_a_heads_share():
    shares = tiny.shapes(tiny.model(key_size=0, value_size=0), INPUTS)
    attention = shares["encoder"]["layers_0"]["self_attention"]
    assert attention["query"]["kernel"].shape == attention["value"]["kernel"].shape == (16, 2, 8)
    apart = tiny.shapes(tiny.model(), INPUTS)["decoder"]["layers_1"]["cross_attention"]
    assert apart["query"]["kernel"].shape == apart["key"]["kernel"].shape == (16, 2, 6)
    assert apart["value"]["kernel"].shape == (16, 2, 5)
    assert apart["output"]["kernel"].shape == (2, 5, 16)


FLAGS = [x.name for x in dataclasses.fields(layer_options.LayerOptions) if x.type is bool]
OPTIONS = [
    # The other way round, but for `remat`, which changes no value.
    *({name: not tiny.ARGUMENTS[name]} for name in FLAGS if name != "remat"),
    {"norm": "layer(epsilon=0.1)"},
    {"tied_embeddings": "target", "source_vocab_size": 11},
    {"tied_embeddings": "none", "source_vocab_size": 11, "target_vocab_size": 17},
    {"num_heads": 3, "d_model": 16},
    *(
        {"mixer": f"shared(projections={kind!r})", "key_size": 8, "value_size": 8}
        for kind in ("qkv", "identity")
    ),
]


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_every_option_builds_runs_and_matters(changes):
    batch = tiny.unpacked(tiny.pairs())
    inputs = batch["inputs"]
    inputs["source"] = np.minimum(inputs["source"], 10)
    model = tiny.model(num_layers=1, **changes)
    parameters = tiny.parameters(model, inputs)
    got = logits(model, parameters, inputs)
    assert got.shape == (3, 8, model.target_vocab_size)
    assert got.dtype == np.float32
    assert np.isfinite(got).all()

    plain = tiny.plain_logits(parameters, inputs)
    assert plain is None or np.abs(got - plain)[batch["weights"] > 0].max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"num_heads": 3, "key_size": 0}, "d_model=16 must be a multiple of "),
        ({"num_heads": 3, "value_size": 0}, "num_heads=3"),
        ({"source_vocab_size": 11}, "tied_embeddings='all'"),
        ({"positions": "rotary", "key_size": 5}, "positions='rotary' .* be even, found 5"),
        ({"positions": "rotary", "mixer": "average"}, "positions='rotary' is read by attention"),
        (
            {"positions": "appended(encoding='rotary')"},
            r"positions: appended\(encoding='rotary'\) has no vectors",
        ),
        (
            {"mixer": "shared(projections='qkv')"},
            r"mixer: shared\(projections='qkv'\) needs keys and values of one size",
        ),
        (
            {"mixer": "shared(projections='identity')", "key_size": 3, "value_size": 3},
            "mixer: .* needs heads that divide d_model .* 2 heads of 3 and",
        ),
        ({"positions": "rotary", "score": "general"}, "score='general' does not go with .*rotary"),
        ({"positions": "shaw(max_distance=2)", "score": "cosine"}, "score='cosine' does not go"),
    ],
)
def test_wrong_sizes_name_the_key(changes, key):
    with pytest.raises(ValueError, match=rf"config\.model\.{key}"):
        tiny.shapes(tiny.model(**changes), INPUTS)


def test_embeddings_begin_normal_and_matrices_glorot_uniform():
    """Embeddings N(0, 1/d_model), so that the embedded input has variance 1."""
    sizes = {"source_vocab_size": 300, "target_vocab_size": 301, "max_positions": 302}
    apart = {"positions": "learned", "tied_embeddings": "none", "attention_bias": True}
    model = tiny.model(d_model=64, num_layers=1, **sizes, **apart)
    init = tiny.jit(lambda rng: model.init(rng, **INPUTS, train=False)["params"])
    params = init(jax.random.key(0))
    matrices = {name: p["embedding"] for name, p in params.items() if "embedding" in p}
    assert sorted(map(len, matrices.values())) == [300, 301, 301, 302, 302]
    for matrix in matrices.values():
        assert float(matrix.std()) == pytest.approx(64**-0.5, rel=0.03)
        assert abs(float(matrix.mean())) < 0.004
    for path, values in flatten_dict(params["encoder"]).items():
        if path[-1] == "kernel":
            # [D, H, K], [H, C, D], [D, F] and [F, D]: all but D are one axis.
            bound = math.sqrt(6 / (64 + values.size // 64))
            assert 0.99 * bound < np.abs(values).max() <= bound, path
            assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.05), path
        elif path[-1] in ("scale", "bias"):
            assert (values == (path[-1] == "scale")).all(), path


def test_dropout_of_the_embedded_input():
    """Section 5.4: on the sums of embeddings and positions, in both stacks."""
    model = tiny.model(dropout_rate=0.5)
    parameters = tiny.parameters(model, INPUTS)

    @functools.partial(tiny.jit, static_argnames="train")
    def embedded(*, train):
        """What the model's own dropout, not one of its layers', gives in encoder and decoder."""
        _, captured = model.apply(
            {"params": parameters},
            **INPUTS,
            train=train,
            rngs={"dropout": jax.random.key(0)},
            capture_intermediates=lambda module, _: module.path == ("dropout",),
            mutable=["intermediates"],
        )
        return captured["intermediates"]["dropout"]["__call__"]

    for dropped, plain in zip(embedded(train=True), embedded(train=False), strict=True):
        dropped, plain = np.asarray(dropped), np.asarray(plain)
        assert 0.3 < (dropped == 0).mean() < 0.7
        np.testing.assert_allclose(dropped[dropped != 0], 2 * plain[dropped != 0], rtol=1e-6)


@pytest.mark.slow
def test_remat_computes_every_layer_again_and_changes_no_gradient():
    """With the same units dropped."""
    changes = {"num_layers": 3, "dropout_rate": 0.2, "activation_dropout_rate": 0.2}
    parameters = tiny.parameters(tiny.model(**changes), INPUTS)

    def total(parameters, remat, train=True):
        rngs = {"dropout": jax.random.key(0)}
        model = tiny.model(**changes, remat=remat)
        return jnp.square(
            model.apply({"params": parameters}, **INPUTS, train=train, rngs=rngs)
        ).sum()

    gradients = [tiny.jit(jax.grad(total), static_argnums=1)(parameters, r) for r in (False, True)]
    for one, other in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(one).max())
    for remat, train, count in ((False, True, 0), (True, True, 6), (True, False, 0)):
        jaxpr = jax.make_jaxpr(functools.partial(total, remat=remat, train=train))(parameters)
        names = [equation.primitive.name for equation in jaxpr.eqns]
        assert sum(name in ("checkpoint", "remat2") for name in names) == count
