"""Encoder-only models: padding and neighbours change nothing, heads aside the params are shared."""

import numpy as np
import pytest
from conformance import tiny_models
from families.texts import texts
from flax.traverse_util import flatten_dict
from helpers import tiny

from transformer.families.texts.text_encoder import mean

MASKED = np.array([[1, 4, 0], [2, 0, 0], [1, 3, 6]])  # columns; row 1 has one masked token


def test_pooling_reads_the_tokens_it_names():
    """Without attention between tokens, only the first one changes the class of 'first'."""
    batch = texts.inputs()
    other = {**batch, "ids": np.where(batch["positions"] > 0, 5, batch["ids"])}
    for pooling, differs in (("first", False), ("mean", True)):
        model = texts.classifier(pooling=pooling)
        params = tiny.parameters(model, batch)
        for layer in params["encoder"].values():
            layer["self_attention"]["output"]["kernel"][:] = 0
        outputs = [texts.applied(model, params, x) for x in (batch, other)]
        assert (np.abs(outputs[0] - outputs[1]).max() > 1e-3) == differs


def test_a_text_of_two_reads_the_other_one_as_another():
    """The first vector changes with the second text, and if that were a part of the first."""
    case = tiny_models.case("text_classifier/pairs", pooling="first", positions="learned")
    batch, _ = case.kind.batch([[1]], 8)
    other = np.where(batch["segments"] > 1, 5, batch["ids"])
    one = np.minimum(batch["segments"], 1)
    for changed in ({**batch, "ids": other}, {**batch, "segments": one}):
        assert np.abs(case.logits(changed) - case.logits(batch)).max() > 1e-4


def test_a_token_depends_on_both_sides():
    batch = {**texts.inputs(), "masked": MASKED}
    model = texts.masked_model()
    params = tiny.parameters(model, batch)
    expected = texts.applied(model, params, batch)
    for column in (0, 3):  # before and after column 1, the first masked token of row 0
        changed = {**batch, "ids": batch["ids"].copy()}
        changed["ids"][0, column] += 1
        assert np.abs(texts.applied(model, params, changed)[0, 0] - expected[0, 0]).max() > 1e-3


def test_a_classifier_has_the_params_of_the_masked_model_but_for_the_head():
    batch = texts.inputs()
    shapes = [
        {path: x.shape for path, x in flatten_dict(tiny.shapes(model, inputs), sep="/").items()}
        for model, inputs in (
            (texts.classifier(positions="learned"), batch),
            (texts.masked_model(positions="learned"), {**batch, "masked": MASKED}),
        )
    ]
    body = [{k: v for k, v in x.items() if not k.startswith("head/")} for x in shapes]
    assert body[0] == body[1]
    assert body[0] != shapes[0] != shapes[1] != body[1]


SHARES = 0.15, 0.8


@pytest.mark.parametrize("length", [64, 128])
def test_flops_are_those_of_the_compiled_matrix_products(length):
    """XLA counts elementwise operations as well: a few percent at this width."""
    sizes = {"d_model": 128, "d_ff": 512, "key_size": 0, "value_size": 0, "vocab_size": 1000}
    models = texts.classifier(**sizes), *(texts.masked_model(**sizes, mask_share=x) for x in SHARES)
    for model in models:
        batch = texts.inputs((length,) * 4, length)
        if share := getattr(model, "mask_share", 0):
            batch["masked"] = np.zeros((4, int(share * length) + 1), np.int32)
        forward = lambda p, x, model=model: model.apply({"params": p}, **x, train=False)
        compiled = tiny.jit(forward).lower(tiny.shapes(model, batch), batch).compile()
        assert model.flops(4, length) / 3 == pytest.approx(
            compiled.cost_analysis()["flops"], rel=0.06
        )


def test_the_mean_is_of_real_positions():
    x_BSD = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)
    real_BS = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    expected = [x_BSD[0, :2].mean(axis=0), x_BSD[1].mean(axis=0), np.zeros(2)]
    np.testing.assert_allclose(mean(x_BSD, real_BS), expected, atol=1e-6)
