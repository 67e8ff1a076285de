"""Memory of devices and of the process: out-of-memory errors, and where freed memory goes."""

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
        # JAX has one exception for all of XLA's statuses: only the message names the status.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(f"{what} does not fit into the devices' memory: {remedy}") from error


def compute_in_calling_thread() -> None:
    """Makes a single CPU device compute in the thread that calls it, not in one of XLA's.

    Takes effect only before JAX has its devices. The arrays inside a step are one large block of
    memory, allocated by the thread that computes. The calling thread gets the same block again and
    again (with the allocator settings of startup.py). The arena of an XLA thread would return the
    block to the kernel after each step, which then clears it: on Multi30k 0.67 instead of 0.54 s of
    CPU time a step. In one arena for all threads, the block would often be at another address.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def return_freed() -> None:
    """Returns freed memory to the system, which startup.py's settings of the allocator do not."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc
        libc.malloc_trim(0)


@contextlib.contextmanager
def freed_returned() -> Iterator[None]:
    """Returns freed memory to the system before and after its `with` block.

    Around a validation, this keeps its memory and a training step's from both being resident.
    """
    return_freed()
    try:
        yield
    finally:
        return_freed()
