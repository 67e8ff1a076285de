"""Out-of-memory errors become one line that says what to lower."""

import jax
import pytest

from transformer.monitoring import memory


def test_out_of_memory_says_what_to_lower():
    words = r"\Aa step with 195 rows does not fit into the devices' memory: lower config.x\Z"
    with (
        pytest.raises(ValueError, match=words),
        memory.fits_in_memory("a step with 195 rows", "lower config.x"),
    ):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")
    with (
        pytest.raises(jax.errors.JaxRuntimeError),
        memory.fits_in_memory("a step", "lower config.x"),
    ):
        raise jax.errors.JaxRuntimeError("INTERNAL: another fault")
