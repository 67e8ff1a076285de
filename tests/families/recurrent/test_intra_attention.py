"""The LSTM with intra-attention equals a loop over positions; its weights, and padding."""

import numpy as np
import pytest
from families.texts import texts
from helpers import tiny

from transformer.errors import UserError


@pytest.fixture(scope="module")
def run():
    """(params, batch, logits, weights [B, T, S])."""
    model, batch = texts.intra_attention(), texts.inputs()
    params = tiny.parameters(model, batch)
    logits, sown = texts.applied(model, params, batch, mutable="intermediates")
    return params, batch, logits, sown["intermediates"]["attention"][0][:, 0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_it_is_a_loop_over_positions(run):
    """Cheng et al. 2016, equations 4 to 9, with lists in place of tapes."""
    params, batch, logits, weights = run
    step = params["recurrent"]
    for row, count in enumerate(batch["segments"].sum(axis=1)):
        hs, cs, attended = [], [], np.zeros(5)
        for t, token in enumerate(batch["ids"][row, :count]):
            x, memory, before = params["embedding"]["embedding"][token], np.zeros(5), attended
            attended = np.zeros(5)
            if hs:
                query = x @ step["input"]["kernel"] + before @ step["attended"]["kernel"]
                keys = np.array(hs) @ step["key"]["kernel"]
                exp = np.exp(np.tanh(keys + query) @ step["v"])
                a = exp / exp.sum()
                np.testing.assert_allclose(weights[row, t, :t], a, atol=1e-5)
                attended, memory = a @ np.array(hs), a @ np.array(cs)
            gates = np.concatenate([attended, x]) @ step["gates"]["kernel"] + step["gates"]["bias"]
            i, f, o, new = np.split(gates, 4)
            cs.append(sigmoid(f + 0.5) * memory + sigmoid(i) * np.tanh(new))
            hs.append(sigmoid(o) * np.tanh(cs[-1]))
        pooled = np.mean(hs, axis=0)
        hidden = np.maximum(pooled @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
        expected = hidden @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)


def test_fields_that_cannot_work_are_refused():
    with pytest.raises(UserError, match=r"config\.model\.state_size must be at least 1, found 0"):
        tiny.shapes(texts.intra_attention(state_size=0), texts.inputs())
    with pytest.raises(UserError, match=r"config\.model\.dropout_rate must be at least 0"):
        tiny.shapes(texts.intra_attention(dropout_rate=1.0), texts.inputs())


def test_flops_are_three_times_the_products_of_the_forward_pass():
    model, batch = texts.intra_attention(), texts.inputs((8,) * 8, 8)
    forward = tiny.forward_flops(model, batch)
    assert model.flops(8, 8) == 3 * forward > 0
