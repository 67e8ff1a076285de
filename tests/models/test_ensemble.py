"""Several models as one."""

import jax
import numpy as np
from conformance import decoding
from conformance.tiny_models import PAIRS, Case
from helpers import tiny
from helpers.tiny import PRE, logits

from transformer.models.ensemble import Ensemble


def members(*changes):
    """An ensemble of models with these changes, its parameters, and inputs."""
    inputs = tiny.unpacked(tiny.pairs())["inputs"]
    model = Ensemble(tuple(tiny.model(**change) for change in changes))
    return model, tiny.parameters(model, inputs), inputs


def test_an_ensembles_probabilities_are_the_mean_of_its_models():
    """Of three, each with parameters of its own: two alike, one of another size."""
    changes = {}, {}, PRE | {"d_model": 8, "num_layers": 1}
    model, parameters, inputs = members(*changes)
    assert list(parameters) == ["members_0", "members_1", "members_2"]
    alone = [
        logits(tiny.model(**change), parameters[f"members_{i}"], inputs)
        for i, change in enumerate(changes)
    ]
    assert np.abs(alone[0] - alone[1]).max() > 0.1
    expected = np.mean([jax.nn.softmax(x.astype(np.float64)) for x in alone], axis=0)
    np.testing.assert_allclose(np.exp(logits(model, parameters, inputs)), expected, atol=1e-6)


def test_an_ensemble_is_decoded():
    model, parameters, _ = members({}, PRE | {"key_size": 3})
    decoding.check(Case("an ensemble", PAIRS, model, parameters), [3, 1, 3], room=3)
