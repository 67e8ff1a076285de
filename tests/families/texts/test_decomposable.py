"""Decomposable attention: the paper's equations, and the order of words."""

import numpy as np
import pytest
from conformance import tiny_models
from scipy import special


def network(params, name, x):
    for layer in (params[name]["inner"], params[name]["outer"]):
        x = np.maximum(x @ layer["kernel"] + layer["bias"], 0)
    return x


def by_hand(params, a, b):
    """Logits of two texts' ids, and the weights of a over b, by the paper's equations."""

    def embedded(ids):
        x, place = params["embedding"]["embedding"][ids], np.arange(len(ids))
        if "intra" not in params:
            return x
        f, distance = network(params, "intra", x), np.clip(place - place[:, None], -2, 2)
        weights = special.softmax(f @ f.T + params["distance_bias"][distance + 2], axis=-1)  # (7)
        return np.concatenate([x, weights @ x], axis=-1)  # (8)

    a, b = embedded(a), embedded(b)
    e = network(params, "attend", a) @ network(params, "attend", b).T  # (1)
    a_over_b, b_over_a = special.softmax(e, axis=1), special.softmax(e.T, axis=1)
    v = [
        sum(network(params, "compare", np.concatenate(words)) for words in zip(*texts, strict=True))
        for texts in ((a, a_over_b @ b), (b, b_over_a @ a))
    ]  # (2) to (4)
    hidden = network(params, "aggregate", np.concatenate(v))  # (5)
    return hidden @ params["head"]["kernel"] + params["head"]["bias"], a_over_b


@pytest.mark.parametrize("name", ["decomposable", "decomposable/intra"])
def test_the_papers_equations_and_the_order_of_words(name):
    """Without intra-attention the order changes nothing. Rows have 2 + 2, 2 + 4 and 2 + 1 words."""
    model, params = (case := tiny_models.case(name)).model, case.params
    batch, _ = case.kind.batch([[0], [1], [2]], 9)
    logits, sown = case.sown(batch)
    weights_BTS = model.attention_weights(sown["intermediates"])["cross"][0, :, 0]
    for row, ids in enumerate(batch["ids"]):
        a, b = (ids[batch["segments"][row] == i] for i in (1, 2))
        expected, alignment = by_hand(params, a, b)
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
        np.testing.assert_allclose(weights_BTS[row, :2, 2 : 2 + len(b)], alignment, atol=1e-6)
        assert not weights_BTS[row, :2, :2].any()
    batch["ids"][1, 2:6] = batch["ids"][1, [4, 2, 5, 3]]
    assert (np.abs(case.logits(batch) - logits).max() > 1e-3) == name.endswith("intra")
