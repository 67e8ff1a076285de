"""Memory of devices and of the process: out-of-memory errors, and return of freed memory."""

import contextlib
import ctypes
from collections.abc import Iterator

import jax

from transformer.errors import UserError


@contextlib.contextmanager
def fits_in_memory(what: str, remedy: str) -> Iterator[None]:
    """Raises UserError, with a remedy, if the body runs out of the devices' memory."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        # JAX has one exception for all of XLA's statuses, so only the message names the status.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(f"{what} does not fit into the devices' memory: {remedy}") from error


def trim() -> None:
    """Returns freed memory to the system, which the allocator of startup.py would keep."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc
        libc.malloc_trim(0)


@contextlib.contextmanager
def trimmed() -> Iterator[None]:
    """Returns freed memory to the system before and after its `with` block.

    Around a validation, it keeps the memory of validation and training from adding up.
    """
    trim()
    try:
        yield
    finally:
        trim()
