"""Out-of-memory errors of devices, in one line that says what to lower."""

import contextlib
from collections.abc import Iterator

import jax

from transformer.errors import UserError


@contextlib.contextmanager
def fits_in_memory(what: str, remedy: str) -> Iterator[None]:
    """Raises UserError, with a remedy, if the body runs out of the devices' memory."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(f"{what} does not fit into the devices' memory: {remedy}") from error
