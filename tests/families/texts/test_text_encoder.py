"""Encoder-only models: what is pooled, both sides of a token, and params that they share."""

import jax
import numpy as np
import pytest
from conformance import tiny_models
from flax.traverse_util import flatten_dict

from transformer.families.texts.text_encoder import mean


def batch_of(case, rows=((0,), (1,), (2,))):
    return case.kind.batch(rows, 8)[0]


@pytest.mark.parametrize(("pooling", "differs"), [("first", False), ("mean", True)])
def test_pooling_reads_the_tokens_it_names(pooling, differs):
    """Without attention between tokens, only the first one changes the class of 'first'."""
    case = tiny_models.case("text_classifier", pooling=pooling)
    params = jax.tree.map(np.copy, case.params)
    for layer in params["encoder"].values():
        layer["self_attention"]["output"]["kernel"][:] = 0
    case, batch = case._replace(params=params), batch_of(case)
    other = {**batch, "ids": np.where(batch["positions"] > 0, 5, batch["ids"])}
    assert (np.abs(case.logits(batch) - case.logits(other)).max() > 1e-3) == differs


def test_a_text_of_two_reads_the_other_one_as_another():
    """The first vector changes with the second text, and if that were a part of the first."""
    case = tiny_models.case("text_classifier/pairs", pooling="first", positions="learned")
    batch = batch_of(case, [[1]])
    other = np.where(batch["segments"] > 1, 5, batch["ids"])
    one = np.minimum(batch["segments"], 1)
    for changed in ({**batch, "ids": other}, {**batch, "segments": one}):
        assert np.abs(case.logits(changed) - case.logits(batch)).max() > 1e-4


def test_a_token_depends_on_both_sides():
    """Of the masked columns of row 0 the first is column 1."""
    case = tiny_models.case("masked_language_model")
    batch = {**batch_of(case), "masked": np.array([[1, 3, 0], [2, 0, 0], [1, 2, 0]])}
    for column in (0, 3):
        changed = {**batch, "ids": batch["ids"].copy()}
        changed["ids"][0, column] += 1
        assert np.abs((case.logits(changed) - case.logits(batch))[0, 0]).max() > 1e-3


def test_a_classifier_has_the_params_of_the_masked_model_but_for_the_head():
    names = ("text_classifier/first", "masked_language_model/learned")
    params = [flatten_dict(tiny_models.case(name).params, sep="/") for name in names]
    shapes = [{path: x.shape for path, x in one.items()} for one in params]
    body = [{k: v for k, v in x.items() if not k.startswith("head/")} for x in shapes]
    assert body[0] == body[1]
    assert body[0] != shapes[0] != shapes[1] != body[1]


def test_the_mean_is_of_real_positions():
    x_BSD = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)
    real_BS = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    expected = [x_BSD[0, :2].mean(axis=0), x_BSD[1].mean(axis=0), np.zeros(2)]
    np.testing.assert_allclose(mean(x_BSD, real_BS), expected, atol=1e-6)
