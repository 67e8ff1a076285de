"""Out-of-memory errors become one line; a step's memory is kept, and returned when asked."""

import os
import platform
import subprocess
import sys

import jax
import pytest

from transformer.runtime import memory, startup


def test_out_of_memory_says_what_to_lower():
    words = r"\Aa step with 195 rows does not fit into the devices' memory: lower config.x\Z"
    fits = memory.fits_in_memory
    with pytest.raises(ValueError, match=words), fits("a step with 195 rows", "lower config.x"):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")
    with pytest.raises(jax.errors.JaxRuntimeError), fits("a step", "lower config.x"):
        raise jax.errors.JaxRuntimeError("INTERNAL: another fault")


# A step whose inside takes one array of 100 MB, called as the training loop does: results are read
# two steps late, and other memory is taken and freed in between. Prints the MB resident then, and
# those after freed memory is returned.
STEPS = """
from transformer.runtime import memory, startup

startup.compute_in_calling_thread()
import jax
import numpy as np


def resident():
    status = open("/proc/self/status").read()
    return int(status.split("RssAnon:")[1].split()[0]) / 1000


@jax.jit
def step(x):
    y = x @ x.T
    return (y / y.max(axis=0)).sum(axis=0)


# As `shard_batch` leaves it: what is not on the device yet is waited for in another thread.
x = jax.block_until_ready(jax.device_put(np.ones((5000, 8), np.float32), jax.devices()[0]))
results = []
before = resident()
for _ in range(10):
    batch = [bytearray(5000) for _ in range(2_000)]
    results.append(step(x))
    assert results[-1].is_ready()  # computed in this thread
    if len(results) > 2:
        float(results.pop(0)[0])
jax.block_until_ready(results)
print(resident() - before)
with memory.trimmed():
    print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are those of glibc")
def test_a_step_gets_the_same_memory_each_time_until_it_is_returned():
    environment = {**os.environ, **startup.ALLOCATOR, "XLA_FLAGS": ""}
    command = [sys.executable, "-c", STEPS]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    kept, returned = map(float, done.stdout.split())
    # Less: it is returned after each step. More: it is in several places, as it is with JAX 0.12,
    # which takes 100 MB more in one or two of the first steps, and then no more.
    assert 110 < kept < (180 if jax.__version_info__ < (0, 11) else 500)
    assert returned < 60
