"""Each model of the registry is held to what transformer/models/__init__.py says of a model."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import decoding, tables, tiny_models
from conformance.mixing import distance
from conformance.tiny_models import LENGTH, TINY
from flax.traverse_util import flatten_dict
from helpers import tiny

from transformer import registry
from transformer.errors import UserError

# `flops` counts training; their forward pass without it, which is counted here, multiplies more.
LESS_IN_TRAINING = ["transformer/feed_forward/experts"]
ALONE = [[0], [1], [2], [], [], []]  # three items, each in a row of its own


def cases(method="", *, boxes=(*registry.PARTS,)):
    """Makes a test one of each tiny model that has a method; variants are slow.

    Models with each part (MODEL/BOX/NAME) are among them for the boxes that make a difference.
    """
    chosen = [
        pytest.param(name, marks=pytest.mark.slow if "/" in name else ())
        for name in tables.cases("MODEL", TINY)
        if not method or hasattr(tiny_models.model_class(name), method)
        if name.count("/") < 2 or name.split("/")[1] in boxes
    ]
    return pytest.mark.parametrize("case", chosen, indirect=True)


GENERATING = cases("step")


@pytest.fixture
def case(request):
    return tiny_models.case(request.param)


def test_every_model_has_a_tiny_one():
    line = "a line NAME: (PAIRS, {FIELD: VALUE}), where PAIRS is for a translation model"
    tables.check_names("MODEL", TINY, line)


@functools.cache
def short_batch(name):
    """Returns three items with little padding, their logits, and the attention weights by kind."""
    case = tiny_models.case(name)
    inputs, where = case.kind.batch([[0], [1], [2]], 6)

    @tiny.jit
    def apply(params):
        run = functools.partial(case.model.apply, train=False, mutable=["intermediates"])
        logits, sown = run({"params": params}, **inputs)
        if not hasattr(case.model, "attention_weights"):
            return logits, {}
        return logits, case.model.attention_weights(sown.get("intermediates", {}))

    logits, weights = jax.device_get(apply(case.params))
    return inputs, logits[where], weights


@cases()
def test_padding_changes_nothing(case):
    assert distance(short_batch(case.name)[1], case.items(ALONE)) < 1e-5, (
        f"{case.name}: logits change with padding to the right or with empty rows below"
    )
    inputs, _ = case.kind.batch(ALONE, LENGTH)
    assert np.isfinite(case.logits(inputs)).all(), (
        f"{case.name}: logits of padding are non-finite, which no weight of 0 makes good"
    )


@cases()
def test_neighbours_change_nothing(case):
    if case.kind.packed and getattr(case.model, "takes_packed_rows", True):
        found, what = case.items([[0, 1], [2], [], [], [], []]), "item of its row"
    else:
        found, what = case.items([[0], [], [], [], [], []]), "row of its batch"
    assert distance(found, case.items(ALONE)[: len(found)]) < 1e-5, (
        f"{case.name}: an item's logits change with another {what}"
    )


@GENERATING
def test_no_logits_depend_on_a_later_token(case):
    tokens = case.kind.target[0]
    inputs, _ = case.kind.batch([[1]] + [[]] * 5, LENGTH)
    before = case.logits(inputs)[0]
    for t in range(1, 6):
        changed = inputs[tokens].copy()
        changed[0, t] = changed[0, t] % 11 + 2
        after = case.logits({**inputs, tokens: changed})[0]
        assert distance(after[:t], before[:t]) < 1e-5, (
            f"{case.name}: logits before position {t} change with the token at {t}"
        )
        assert distance(after[t], before[t]) > 1e-4, (
            f"{case.name}: the logits at position {t} do not change with the token there"
        )


@cases("hidden", boxes=())
def test_a_call_is_logits_of_hidden(case):
    @tiny.jit
    def logits(params, inputs):
        x_BTD = case.model.apply({"params": params}, **inputs, train=False, method="hidden")
        rounded = case.model.apply({"params": params}, x_BTD, jnp.bfloat16, method="logits")
        return case.model.apply({"params": params}, x_BTD, method="logits"), rounded

    inputs, _ = case.kind.batch(ALONE, LENGTH)
    found, rounded = logits(case.params, inputs)
    assert rounded.dtype == jnp.bfloat16, f"{case.name}: logits(x, dtype) are not of type `dtype`"
    # Rounded to 8 bits, and once more where a bias is added.
    assert distance(rounded, found) < 2**-7 * np.abs(found).max(), (
        f"{case.name}: logits(x, bfloat16) are not logits(x), rounded"
    )
    assert distance(found, case.logits(inputs)) < 1e-5, (
        f"{case.name}: logits(hidden(inputs)) are not the logits of a call"
    )


@cases()
def test_a_call_makes_all_params_whatever_the_dtype(case):
    """That of a call with train=False, as decoding finds for itself."""
    inputs, _ = case.kind.batch([[0]], LENGTH)

    def made(model, train):
        """Returns the logits, and {path: dtype} of the params that a call makes."""
        keys = {"params": jax.random.key(0), "dropout": jax.random.key(0)}
        init = lambda: model.init_with_output(keys, **inputs, train=train)
        logits, variables = jax.eval_shape(init)
        return logits, types(variables["params"])

    types = lambda params: {path: x.dtype for path, x in flatten_dict(params, sep="/").items()}
    params = types(case.params)
    assert {*params.values()} == {np.dtype("float32")}, f"{case.name}: params are not all float32"
    further = {"in training": made(case.model, train=True)[1]}
    if hasattr(case.model, "dtype"):
        low = tiny_models.build(case.name, dtype="bfloat16")
        logits, further["in bfloat16"] = made(low, train=False)
        assert logits.dtype == "float32", f"{case.name}: logits in bfloat16 are {logits.dtype}"
    for when, others in further.items():
        differing = sorted(path for path, _ in others.items() - params.items())
        assert not differing, f"{case.name}: {differing} are other params, {when}, than of a call"


@cases("attention_weights")
def test_attention_sums_to_1_over_real_keys(case):
    """A first token may have none: some attention sees earlier tokens only."""
    inputs, _, kinds = short_batch(case.name)

    def real(side, count):
        segments = inputs.get(f"{side}_segments", inputs.get("segments", np.ones((3, 0))))
        return segments > 0 if segments.shape[1] == count else np.ones((3, count), bool)

    for kind, weights_LBHTS in kinds.items():
        # A layer whose mixer is no attention has zeros.
        weights_LBHTS = weights_LBHTS[weights_LBHTS.any(axis=(1, 2, 3, 4))]
        T, S = weights_LBHTS.shape[3:]
        queries_BT = real("source" if kind == "encoder" else "target", T)
        keys_BS = real("target" if kind == "decoder" else "source", S)
        weights_BTLHS = weights_LBHTS.transpose(1, 3, 0, 2, 4)
        of_padding = (weights_BTLHS * ~keys_BS[:, None, None, None])[queries_BT]
        assert not of_padding.any(), f"{case.name}: {kind} attention has weights of padding"
        assert distance(weights_BTLHS[:, 1:][queries_BT[:, 1:]].sum(axis=-1), 1) < 1e-6, (
            f"{case.name}: {kind} attention does not sum to 1"
        )


@cases(boxes=())
def test_a_value_that_cannot_be_is_named_by_its_key(case):
    if not hasattr(case.model, "options"):  # whose values the rules of the config's keys check
        with pytest.raises(
            UserError, match=r"^config\.model\.dropout_rate must be at least 0 and "
        ):
            tiny_models.case(case.name, dropout_rate=1.0)


@cases("flops", boxes=[box for box in registry.PARTS if box != "mixer"])
def test_flops_are_three_times_the_products_of_the_forward_pass(case):
    inputs, _ = case.kind.batch(ALONE, LENGTH)
    flops = case.model.flops(len(ALONE), LENGTH)
    products = 3 * tiny.forward_flops(case.model, case.params, inputs)
    # The mean of a text is a product in its program, too small to be counted.
    share = 0.005 if getattr(case.model, "pooling", "") == "mean" else 0
    less = case.name in LESS_IN_TRAINING
    expected = pytest.approx(products, rel=share, abs=0)
    assert 0 < flops < products if less else 0 < flops == expected, (
        f"{case.name}: flops are {flops:,}, those of a program's products {products:,}"
    )
    assert 2 * flops == case.model.flops(2 * len(ALONE), LENGTH), (
        f"{case.name}: flops do not grow with the rows"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [name for name in tables.cases("MODEL", TINY) if "/" not in name], indirect=True
)
def test_dropout_is_random_in_training_only(case):
    """In an encoder, too; without training it wants no random numbers.

    All models of layers have those of the Transformer, with its rates.
    """
    inputs, _ = case.kind.batch(ALONE, LENGTH)

    @functools.partial(tiny.jit, static_argnums=0)
    def outputs(model, rngs):
        """The logits, and what is encoded on the way."""
        by_method = {}

        def keep(call, arguments, options, context):
            result = call(*arguments, **options)
            if context.module.path == ():
                by_method[context.method_name] = result
            return result

        with nn.intercept_methods(keep):
            model.apply({"params": case.params}, **inputs, train=True, rngs=rngs)
        return {name: x for name, x in by_method.items() if name in ("__call__", "encode")}

    rates = [name for name in TINY[case.name][1] if name.endswith("dropout_rate")]
    model = tiny_models.build(case.name, **dict.fromkeys(rates, 0.4))
    unchanged = np.array_equal(tiny.logits(model, case.params, inputs), case.logits(inputs))
    assert unchanged, f"{case.name}: {rates} change the logits without training"
    for rate in rates if case.name == "transformer" else {*rates} & {"dropout_rate"}:
        model = tiny_models.build(case.name, **{rate: 0.4})
        first, again, other = (outputs(model, {"dropout": jax.random.key(i)}) for i in (0, 0, 1))
        for method in first:
            drawn = [jax.tree.leaves(x[method])[0] for x in (first, again, other)]
            assert np.array_equal(*drawn[:2]), f"{case.name}: {rate} is not random by its key"
            assert distance(*drawn[1:]) > 1e-2, f"{case.name}: {rate} drops nothing in {method}"


@GENERATING
def test_decoding_has_the_logits_of_a_call(case):
    """In steps of one token and of several, with reordered beams in a grown cache."""
    if "/mixer/" not in case.name:
        decoding.check(case, [1, 3, 1, 1], room=1)
    else:  # one program fewer, because test_mixers.py has all orders of a mixer's steps
        decoding.check(case, [1, 1, 1, 3, 3], room=3)
