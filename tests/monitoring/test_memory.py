"""What does not fit into memory is one line that says what to lower."""

import jax
import pytest

from transformer.monitoring import memory


def test_what_does_not_fit_says_what_to_lower():
    said = r"\Aa step with 195 rows does not fit into the devices' memory: lower config.x\Z"
    with (
        pytest.raises(ValueError, match=said),
        memory.fits_in_memory("a step with 195 rows", "lower config.x"),
    ):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")
    with (
        pytest.raises(jax.errors.JaxRuntimeError),
        memory.fits_in_memory("a step", "lower config.x"),
    ):
        raise jax.errors.JaxRuntimeError("INTERNAL: another fault")
