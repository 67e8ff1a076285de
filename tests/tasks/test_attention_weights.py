"""Attention weights of sentence pairs: those of each layer and head, without the padding."""

import flax.linen as nn
import numpy as np
import pytest
from helpers import reversal

from transformer.data import pairs
from transformer.tasks import attention_weights
from transformer.tasks.saved_model import SavedModel

SOURCE, TARGET = "a b c d e f", "c a h h"
S, T = 7, 5
SHAPES = {"encoder": (2, 2, S, S), "decoder": (2, 2, T, T), "cross": (2, 2, T, S)}
PARTS = {"encoder": ("encoder", "self_attention"), "decoder": ("decoder", "self_attention")}
PARTS |= {"cross": ("decoder", "cross_attention")}


@pytest.fixture(scope="module")
def run():
    """A small model with random params and the toy task's vocabulary: L = 2, H = 2."""
    return SavedModel(*reversal.untrained(), [7], 7, reversal.vocabulary())


@pytest.fixture(scope="module")
def found(run):
    return attention_weights.pair_weights(run, SOURCE, TARGET)


def test_shapes_are_those_of_the_pieces(found):
    for name, shape in SHAPES.items():
        assert found[name].shape == shape
        assert found[name].dtype == np.float32
    assert found["source"].tolist() == [f"▁{letter}" for letter in "abcdef"] + ["</s>"]
    assert found["target"].tolist() == ["▁c", "▁a", "▁h", "▁h", "</s>"]
    assert found.keys() == {*SHAPES, "source", "target"}


@pytest.mark.parametrize("name", PARTS)
def test_weights_are_those_that_the_layers_sow(run, found, name):
    """For the pair alone, without padding; models/test_attention.py has what a layer sows."""
    ids = [np.array(side)[None] for side in reversal.ids([SOURCE, TARGET])]
    inputs = pairs.inputs_of_single_pairs(*ids)
    _, sown = run.model.apply({"params": run.params}, **inputs, train=False, mutable=True)
    stack, part = PARTS[name]
    layers = sown["intermediates"][stack]
    for layer, weights_HTS in enumerate(found[name]):
        [expected_BHTS] = layers[f"layers_{layer}"][part]["attention"]
        np.testing.assert_allclose(weights_HTS, expected_BHTS[0], rtol=0, atol=1e-6)


def test_empty_texts_are_an_end_symbol_each(run):
    empty = attention_weights.pair_weights(run, "", " ")
    for name in SHAPES:
        assert empty[name].shape == (2, 2, 1, 1)
        assert (empty[name] == 1).all()


def test_no_position_is_beyond_the_learned_ones():
    """A model with as many learned positions as the longer text has pieces suffices."""
    untrained = reversal.untrained(positions="learned", max_positions=20)
    run = SavedModel(*untrained, [7], 7, reversal.vocabulary())
    weights = attention_weights.pair_weights(run, "a " * 17, "b")
    assert np.isfinite(weights["cross"]).all()
    np.testing.assert_allclose(weights["cross"].sum(axis=-1), 1, rtol=0, atol=1e-6)


def test_a_model_without_attention_has_no_weights():
    assert attention_weights.batch_weights({}, {}, model=nn.Dense(3)) == {}
