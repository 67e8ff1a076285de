"""Devices' memory -> one line, where something does not fit into it."""

import contextlib
from collections.abc import Iterator

import jax

from transformer.errors import UserError


@contextlib.contextmanager
def fits_in_memory(what: str, remedy: str) -> Iterator[None]:
    """UserError, with what to lower, if what is computed inside is too large for the devices."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(f"{what} does not fit into the devices' memory: {remedy}") from error
