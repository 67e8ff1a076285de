"""The decoder-only model: a token sees its own text up to itself; steps equal the full pass."""

import functools

import jax
import numpy as np
import pytest
from helpers import language, tiny
from helpers.cases import slow_but

from transformer import models
from transformer.errors import UserError

MODELS = {
    "learned": {},
    "sinusoids": {"positions": "interleaved", "norm": "post", "final_norm": False},
    "rotary": {"positions": "rotary", "norm_kind": "rms"},
    "shaw": {"positions": "shaw", "max_distance": 3},
    "untied": {"tied_embeddings": False, "attention_bias": True},
}


def inputs_of(lengths, width=8, seed=0):
    """A row of texts of these lengths, packed one after the other."""
    tokens, positions, segments = np.zeros((3, 1, width), np.int32)
    tokens[:, : sum(lengths)] = np.random.default_rng(seed).integers(2, 13, (1, sum(lengths)))
    start = 0
    for segment, length in enumerate(lengths, start=1):
        positions[0, start : start + length] = np.arange(length)
        segments[0, start : start + length] = segment
        start += length
    return {"tokens": tokens, "positions": positions, "segments": segments}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def run(request):
    """(model, params)"""
    model = language.model(**request.param)
    return model, tiny.parameters(model, inputs_of([8]))


def test_a_token_sees_those_before_it_and_itself(run):
    model, params = run
    inputs = inputs_of([7])
    expected = tiny.logits(model, params, inputs)
    for t in range(1, 7):
        other = {**inputs, "tokens": inputs["tokens"].copy()}
        other["tokens"][0, t] = 2 + (other["tokens"][0, t] - 1) % 11
        got = tiny.logits(model, params, other)
        np.testing.assert_allclose(got[0, :t], expected[0, :t], atol=1e-5)
        assert np.abs(got[0, t:7] - expected[0, t:7]).max(axis=-1).min() > 1e-4


def test_texts_of_a_row_do_not_see_each_other(run):
    model, params = run
    packed = inputs_of([3, 4])
    expected = tiny.logits(model, params, packed)[0, 3:7]
    alone = inputs_of([4])
    alone["tokens"][0, :4] = packed["tokens"][0, 3:7]
    np.testing.assert_allclose(tiny.logits(model, params, alone)[0, :4], expected, atol=1e-5)


@pytest.mark.parametrize(
    "counts", slow_but([[1] * 7, [4, 1, 2]], [4, 1, 2]), ids=["one at a time", "four, one, two"]
)
def test_steps_equal_the_full_pass_while_beams_follow_others(run, counts):
    """Two texts of three beams, with new parents behind each step; the cache grows once."""
    model, params = run
    apply = functools.partial(model.apply, {"params": params})
    step = tiny.jit(functools.partial(apply, method="step"))
    memory = apply(None, None, None, train=False, method="encode")
    memory, cache = apply(memory, np.ones((2, 1), bool), 4, 3, method="prepare")
    assert memory == ()
    random, history = np.random.default_rng(1), np.zeros((2, 3, 0), int)
    for count in counts:
        new = random.integers(2, 13, (2, 3, count))
        position = history.shape[2]
        if position == 4:
            cache = model.grow(cache, 9)
        history = np.concatenate([history, new], axis=2)
        got, cache = step(new, position, memory, cache)
        rows = [inputs_of([history.shape[2]]) for _ in range(6)]
        inputs = jax.tree.map(lambda *x: np.concatenate(x), *rows)
        inputs["tokens"][:, : history.shape[2]] = history.reshape(6, -1)
        expected = tiny.logits(model, params, inputs).reshape(2, 3, 8, -1)
        np.testing.assert_allclose(got, expected[:, :, position : position + count], atol=1e-5)
        parents = random.integers(0, 3, (2, 3))
        history = np.take_along_axis(history, parents[:, :, None], axis=1)
        cache = model.reorder(cache, parents)


def test_a_call_is_logits_of_hidden(run):
    model, params = run
    inputs = inputs_of([8])
    apply = functools.partial(model.apply, {"params": params})
    x = apply(**inputs, train=False, method="hidden")
    got = apply(x, method="logits")
    np.testing.assert_allclose(got, tiny.logits(model, params, inputs), atol=1e-5)


def test_flops_are_those_of_the_matrix_products():
    """By hand: 2 layers of 4 projections, 2 products of attention and 2 of the feed-forward net."""
    model, T = language.model(), 8
    heads = 2 * (6 + 5)
    layer = 2 * 16 * heads + T * heads + 2 * 16 * 24
    assert model.flops(3, T) == 3 * 2 * 3 * T * (2 * layer + 16 * 13)


def test_learned_positions_are_limited_and_wrong_fields_are_one_line():
    assert language.model().position_limit == 12
    assert language.model(positions="interleaved").position_limit == np.inf
    for changes, words in (
        ({"positions": "rotated"}, "positions must be one of"),
        ({"d_model": 15}, "d_model=15 must be even"),
        ({"num_heads": 3, "key_size": 0}, "multiple of"),
    ):
        fields = {k: v for k, v in {**language.ARGUMENTS, **changes}.items() if k != "vocab_size"}
        model = models.build("language_model", fields, vocab_size=13)
        with pytest.raises(UserError, match=rf"\Aconfig\.model\..*{words}"):
            tiny.shapes(model, inputs_of([8]))
