"""Attention weights of sentence pairs against plain numpy."""

import flax.linen as nn
import numpy as np
import pytest
from helpers import reversal, tiny

from transformer.data import pairs
from transformer.tasks import attention_weights, translation

SOURCE, TARGET = "a b c d e f", "c a h h"
S, T = 7, 5
SHAPES = {"encoder": (2, 2, S, S), "decoder": (2, 2, T, T), "cross": (2, 2, T, S)}


def pieces():
    return reversal.vocabulary().source


@pytest.fixture(scope="module")
def run():
    """A small model with random params and the toy task's vocabulary: L = 2, H = 2."""
    size = len(pieces())
    model = tiny.model(source_vocab_size=size, target_vocab_size=size)
    parameters = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    return translation.TrainedTranslator(model, reversal.vocabulary(), parameters, [7])


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


@pytest.fixture(scope="module")
def went_in(run):
    """The inputs of all projections of queries and keys, {path: [T, D]}; they are not padded here,
    as those of `pair_weights` are."""
    captured = {}

    def keep(call, arguments, named, context):
        if context.module.name in ("query", "key"):
            captured["/".join(context.module.path)] = np.asarray(arguments[0], np.float64)[0]
        return call(*arguments, **named)

    ids = [np.array(side)[None] for side in reversal.ids([SOURCE, TARGET])]
    with nn.intercept_methods(keep):
        run.model.apply({"params": run.params}, **pairs.inputs_of_single_pairs(*ids), train=False)
    return captured


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize(
    ("name", "stack", "part"),
    [
        ("encoder", "encoder", "self_attention"),
        ("decoder", "decoder", "self_attention"),
        ("cross", "decoder", "cross_attention"),
    ],
)
def test_weights_are_softmaxes(run, found, went_in, name, stack, part, layer, head):
    """Of queries times keys, in plain numpy (paper, section 3.2.1)."""
    place = f"{stack}/layers_{layer}/{part}"
    kernels = run.params[stack][f"layers_{layer}"][part]
    q_TK, k_SK = (
        went_in[f"{place}/{side}"] @ np.asarray(kernels[side]["kernel"], np.float64)[:, head]
        for side in ("query", "key")
    )
    scores_TS = q_TK @ k_SK.T / np.sqrt(q_TK.shape[1])
    if name == "decoder":
        scores_TS[~np.tri(T, dtype=bool)] = -np.inf
    powers_TS = np.exp(scores_TS - scores_TS.max(axis=1, keepdims=True))
    expected_TS = powers_TS / powers_TS.sum(axis=1, keepdims=True)
    assert expected_TS.shape == SHAPES[name][2:]
    np.testing.assert_allclose(found[name][layer, head], expected_TS, rtol=0, atol=1e-5)


def test_empty_texts_are_an_end_symbol_each(run):
    empty = attention_weights.pair_weights(run, "", " ")
    for name in SHAPES:
        assert empty[name].shape == (2, 2, 1, 1)
        assert (empty[name] == 1).all()


def test_no_position_is_beyond_the_learned_ones():
    """A model with as many learned positions as the longer text has pieces suffices."""
    size = len(pieces())
    sizes = {"source_vocab_size": size, "target_vocab_size": size}
    model = tiny.model(**sizes, positions="learned", max_positions=20)
    parameters = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    run = translation.TrainedTranslator(model, reversal.vocabulary(), parameters, [7])
    weights = attention_weights.pair_weights(run, "a " * 17, "b")
    assert np.isfinite(weights["cross"]).all()
    np.testing.assert_allclose(weights["cross"].sum(axis=-1), 1, rtol=0, atol=1e-6)


def test_a_model_without_attention_has_no_weights():
    assert attention_weights.batch_weights({}, {}, model=nn.Dense(3)) == {}
