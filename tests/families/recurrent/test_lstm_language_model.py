"""Language models of an LSTM and an LSTMN: the papers' equations, FLOPs, and fields."""

import numpy as np
import pytest
from conformance import tiny_models
from families.recurrent.lstmn import lstmn_states
from helpers import tiny

from transformer.families.recurrent.cells import Cell
from transformer.families.recurrent.lstm_language_model import LstmLanguageModel


def build(**changes):
    return LstmLanguageModel(**{**tiny_models.LSTMN, **changes})


INPUTS, _ = tiny_models.texts([[0], [1]], 8)


def lstm_states(own, x_TD):
    cell, hs = Cell("lstm", 5, 0.5), []
    carry = np.zeros(5), np.zeros(5)
    for x_D in x_TD:
        carry, h_C = cell.apply({"params": own}, carry, x_D)
        hs.append(h_C)
    return np.array(hs)


@pytest.mark.parametrize(("size", "states"), [(4, lstmn_states), (0, lstm_states)])
def test_it_is_a_loop_over_positions(size, states):
    model = build(attention_size=size)
    params = tiny.parameters(model, INPUTS)
    x_BTD = params["embedding"]["embedding"][INPUTS["tokens"]]
    expected = [states(params["recurrent"], x_TD) @ params["head"]["kernel"] for x_TD in x_BTD]
    logits_BTV = tiny.logits(model, params, INPUTS)
    np.testing.assert_allclose(logits_BTV, expected + params["head"]["bias"], atol=1e-5)
