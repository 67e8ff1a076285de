"""The structured self-attentive embedding: the paper's equations, and its penalty."""

import numpy as np
import pytest
from conformance import tiny_models


def test_hops_are_the_papers_equations():
    case = tiny_models.case("self_attentive")
    batch, params = case.kind.batch([[0], [1], [2]], 8)[0], case.params
    logits, sown = case.sown(batch)
    h_BSC = sown["intermediates"]["recurrent"]["__call__"][0]
    scores_BSR = np.tanh(h_BSC @ params["inner"]["kernel"]) @ params["hops"]["kernel"]
    (weights_BHTS,) = sown["intermediates"]["attention"]
    for row, count in enumerate(batch["segments"].sum(axis=1)):
        exp = np.exp(scores_BSR[row, :count])
        weights_RS = (exp / exp.sum(axis=0)).T
        np.testing.assert_allclose(weights_BHTS[row, 0, :, :count], weights_RS, atol=1e-6)
        assert (weights_BHTS[row, 0, :, count:] == 0).all()
        penalty = 0.7 * ((weights_RS @ weights_RS.T - np.eye(2)) ** 2).sum()
        assert sown["losses"]["penalty"][0][row] == pytest.approx(penalty, rel=1e-5)
        m = (weights_RS @ h_BSC[row, :count]).reshape(-1)
        hidden = np.maximum(m @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
        expected = hidden @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
