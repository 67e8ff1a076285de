"""Language models of an LSTM and an LSTMN: the papers' equations."""

import numpy as np
import pytest
from conformance import tiny_models
from families.recurrent.lstmn import lstmn_states

from transformer.families.recurrent.cells import Cell


def lstm_states(own, x_TD):
    cell, hs = Cell("lstm", 5, 0.5), []
    carry = np.zeros(5), np.zeros(5)
    for x_D in x_TD:
        carry, h_C = cell.apply({"params": own}, carry, x_D)
        hs.append(h_C)
    return np.array(hs)


@pytest.mark.parametrize(("size", "states"), [(4, lstmn_states), (0, lstm_states)])
def test_it_is_a_loop_over_positions(size, states):
    case = tiny_models.case("lstm_language_model", attention_size=size)
    (inputs, _), params = case.kind.batch([[0], [1]], 8), case.params
    x_BTD = params["embedding"]["embedding"][inputs["tokens"]]
    expected = [states(params["recurrent"], x_TD) @ params["head"]["kernel"] for x_TD in x_BTD]
    np.testing.assert_allclose(case.logits(inputs), expected + params["head"]["bias"], atol=1e-5)
