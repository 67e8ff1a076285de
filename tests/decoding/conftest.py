"""What several files of this folder decode with."""

import pytest
from helpers import decoders


@pytest.fixture(scope="session")
def untrained():
    """(model, params) of `decoders.untrained_model`."""
    return decoders.untrained_model()
