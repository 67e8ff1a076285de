"""The LSTM with intra-attention equals a loop over positions."""

import numpy as np
from conformance import tiny_models
from families.recurrent.lstmn import lstmn_states


def test_it_is_the_mean_of_a_loop_over_positions():
    case = tiny_models.case("intra_attention")
    batch, params = case.kind.batch([[0], [1], [2]], 8)[0], case.params
    logits = case.logits(batch)
    for row, count in enumerate(batch["segments"].sum(axis=1)):
        x_TD = params["embedding"]["embedding"][batch["ids"][row, :count]]
        pooled = lstmn_states(params["recurrent"], x_TD).mean(axis=0)
        hidden = np.maximum(pooled @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
        expected = hidden @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
