"""The LSTM with intra-attention equals a loop over positions; its FLOPs."""

import numpy as np
from families.recurrent.lstmn import lstmn_states
from families.texts import texts
from helpers import tiny


def test_it_is_the_mean_of_a_loop_over_positions():
    model, batch = texts.intra_attention(), texts.inputs()
    params = tiny.parameters(model, batch)
    logits = texts.applied(model, params, batch)
    for row, count in enumerate(batch["segments"].sum(axis=1)):
        x_TD = params["embedding"]["embedding"][batch["ids"][row, :count]]
        pooled = lstmn_states(params["recurrent"], x_TD).mean(axis=0)
        hidden = np.maximum(pooled @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
        expected = hidden @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)


def test_flops_are_three_times_the_products_of_the_forward_pass():
    model, batch = texts.intra_attention(), texts.inputs((8,) * 8, 8)
    forward = tiny.forward_flops(model, batch)
    assert model.flops(8, 8) == 3 * forward > 0
