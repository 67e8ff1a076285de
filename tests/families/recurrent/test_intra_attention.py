"""A classifier and language models of an LSTM, with intra-attention or not, equal loops."""

import numpy as np
import pytest
from conformance import tiny_models

from transformer.families.recurrent.cells import Cell


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstmn_states(own, x_TD):
    """Cheng et al. 2016, equations 4 to 9, with lists in place of tapes."""
    hs, cs, attended = [], [], np.zeros(5)
    for x_D in x_TD:
        memory, before, attended = np.zeros(5), attended, np.zeros(5)
        if hs:
            query = x_D @ own["input"]["kernel"] + before @ own["attended"]["kernel"]
            exp = np.exp(np.tanh(np.array(hs) @ own["key"]["kernel"] + query) @ own["v"])
            attended, memory = (exp @ np.array(tape) / exp.sum() for tape in (hs, cs))
        gates = np.concatenate([attended, x_D]) @ own["gates"]["kernel"] + own["gates"]["bias"]
        i, f, o, new = np.split(gates, 4)
        cs.append(sigmoid(f + 0.5) * memory + sigmoid(i) * np.tanh(new))
        hs.append(sigmoid(o) * np.tanh(cs[-1]))
    return np.array(hs)


def lstm_states(own, x_TD):
    cell, hs, carry = Cell("lstm", 5, 0.5), [], (np.zeros(5), np.zeros(5))
    for x_D in x_TD:
        carry, h_C = cell.apply({"params": own}, carry, x_D)
        hs.append(h_C)
    return np.array(hs)


@pytest.mark.parametrize(("size", "states"), [(4, lstmn_states), (0, lstm_states)])
def test_a_language_model_is_a_loop_over_positions(size, states):
    case = tiny_models.case("lstm_language_model", attention_size=size)
    (inputs, _), params = case.kind.batch([[0], [1]], 8), case.params
    x_BTD = params["embedding"]["embedding"][inputs["tokens"]]
    expected = [states(params["recurrent"], x_TD) @ params["head"]["kernel"] for x_TD in x_BTD]
    np.testing.assert_allclose(case.logits(inputs), expected + params["head"]["bias"], atol=1e-5)


def test_a_classifier_is_of_the_mean_of_a_loop_over_positions():
    case = tiny_models.case("intra_attention")
    batch, params = case.kind.batch([[0], [1], [2]], 8)[0], case.params
    logits = case.logits(batch)
    for row, count in enumerate(batch["segments"].sum(axis=1)):
        x_TD = params["embedding"]["embedding"][batch["ids"][row, :count]]
        pooled = lstmn_states(params["recurrent"], x_TD).mean(axis=0)
        hidden = np.maximum(pooled @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
        expected = hidden @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
