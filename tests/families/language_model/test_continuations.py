"""Continuations: window by window what the full pass says, whatever the batch, block or devices."""

import functools
import itertools
import types

import jax
import numpy as np
import pytest
from families.language_model import language

from transformer.distributed import layout
from transformer.families.language_model import continuations
from transformer.models.ensemble import Ensemble

VOCABULARY = types.SimpleNamespace(pad=0, end=1, unknown=2, start=3)
NEVER = (0, 2, 3)
PROMPTS = [[5, 6, 7], [], [4] * 20, [9, 8]]


@pytest.fixture(scope="module")
def run():
    model = language.model()
    return model, language.parameters(model)


def tokens_of(run, prompts, keys, count, *, context=8, params=None, **changes):
    """The first `count` tokens of each row, prompts included."""
    model, own = run
    blocks = continuations.blocks(
        own if params is None else params,
        prompts,
        keys,
        model=model,
        context=context,
        vocabulary=VOCABULARY,
        **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0, **changes},
    )
    tokens = np.zeros((len(prompts), 0), int)
    while tokens.shape[1] < count:
        tokens = np.concatenate([tokens, next(blocks)], axis=1)
    return tokens[:, :count].tolist()


def greedy(run, prompt, count, context):
    """The likeliest tokens, by full passes over the windows of the module's docstring."""
    inputs, first = [1], 0
    while len(inputs) <= count:
        n = len(inputs) - 1  # the token to predict
        if n - first == context:
            first = n - context // 2
        logits = language.logits(*run, inputs[first:])[-1].copy()
        logits[list(NEVER)] = -np.inf
        inputs.append(prompt[n] if n < len(prompt) else int(logits.argmax()))
    return inputs[1:]


@pytest.mark.parametrize("context", [1, 5, 8])
def test_greedy_tokens_are_those_of_full_passes(run, context):
    """Also behind the context, and of a prompt that is longer than it."""
    rows = tokens_of(run, PROMPTS, [(i, 0) for i in range(4)], 30, context=context, top_k=1)
    for prompt, tokens in zip(PROMPTS, rows, strict=True):
        assert tokens == greedy(run, prompt, 30, context)


@pytest.mark.slow
def test_the_draws_of_a_row_are_its_own(run):
    """Not those of other rows, of blocks or of devices; they depend on its keys and the seed."""
    keys = [(i, i % 2) for i in range(4)]
    expected = tokens_of(run, PROMPTS, keys, 30)
    for i in (0, 2):
        assert tokens_of(run, [PROMPTS[i]], [keys[i]], 30, block=1) == [expected[i]]
    params = jax.device_put(run[1], layout.make_layout("pmap", (0, 1, 1)).replicated)
    assert tokens_of(run, PROMPTS, keys, 30, params=params) == expected
    draw = functools.partial(tokens_of, run, [PROMPTS[0]] * 4, [(0, 0), (0, 1), (1, 0), (1, 1)], 30)
    same, other = draw(), draw(seed=1)
    assert same[0] == expected[0]
    for one, two in itertools.combinations([*same, *other], 2):
        assert one != two
        assert one[:3] == two[:3] == PROMPTS[0]


def test_an_ensemble_of_equal_models_is_as_one(run):
    _, params = run
    both = Ensemble((language.model(), language.model()))
    twice = both, {"members_0": params, "members_1": params}
    keys = [(i, 0) for i in range(4)]
    rows = tokens_of(twice, PROMPTS, keys, 20, top_k=1)
    assert rows == tokens_of(run, PROMPTS, keys, 20, top_k=1)


def test_tokens_are_drawn_by_their_probability(run):
    count, prompt = 4000, [5, 6, 7]
    draw = functools.partial(tokens_of, run, [prompt] * count, [(i, 0) for i in range(count)], 4)
    logits = language.logits(*run, [1, *prompt])[-1].copy()
    logits[list(NEVER)] = -np.inf
    for temperature in (1.0, 0.5):
        probs = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
        shares = np.bincount([x[3] for x in draw(temperature=temperature)], minlength=13) / count
        assert np.abs(shares - probs).max() < 4 * np.sqrt(0.25 / count)
        assert not shares[list(NEVER)].any()
    assert {x[3] for x in draw(top_k=3)} == set(np.argsort(-logits)[:3].tolist())
