"""Settings of the process, made before JAX has its devices: allocator, garbage collection, XLA.

The head imports nothing but the standard library, because launch.py restarts itself before its
other imports.
"""

import gc
import hashlib
import logging
import os
import platform
import sys
from pathlib import Path

# Settings of glibc's allocator: keep freed memory, in huge pages where available. By default each
# step would return its large arrays to the kernel, which clears them again: a small step takes 1.35
# times as long. Two arenas: only the main thread's keeps blocks over 64 MB, but with a single one
# the threads that compile wait for each other.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# How many new objects start a garbage collection; Python 3.11 has 700. JAX keeps what it traces,
# millions of objects, and each full collection goes through them: 2 of 16.7 s to translate 5,000
# lines.
NEW_OBJECTS = 20_000

SCHEDULER = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"


def restart_with_allocator() -> None:
    """Restarts this program with ALLOCATOR in its environment, which glibc reads at start only.

    Does nothing if one of the variables is set already, without glibc, or if another program, such
    as a notebook, has imported this one.
    """
    # `python -X dev launch.py A` has orig_argv [python, -X, dev, launch.py, A], of which the last
    # two are argv. Where they differ, another program, such as a notebook, has imported this one.
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def freeze_imports() -> None:
    """Exempts all objects so far from garbage collection, and collects others more rarely.

    With the collection disabled while importing, as launch.py does, this saves 0.4 of 2.4 s to
    translate a line. Does nothing where it is enabled.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
        gc.enable()


def schedule_for_memory() -> None:
    """Makes XLA order the operations of CPU programs for little memory, as on accelerators.

    By default it orders them so that many can be computed at the same time. On two cores a step of
    base then has 1.35 instead of 0.86 GB of temporaries, and takes 1.01 times as long. Takes effect
    only before JAX has its devices. What XLA_FLAGS says of the scheduler stays, because XLA takes
    the last of several values; so does the name of a file of flags.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    is_file = flags and not flags.startswith("-")
    if SCHEDULER not in flags and not is_file:
        os.environ["XLA_FLAGS"] = f"{SCHEDULER} {flags}".rstrip()


def compute_in_calling_thread() -> None:
    """Makes a single CPU device compute in the thread that calls it, not in one of XLA's.

    Takes effect only before JAX has its devices. The arrays inside a step are one large block of
    memory, allocated by the thread that computes. The calling thread gets the same block again and
    again (with the settings of ALLOCATOR). The arena of an XLA thread would return the
    block to the kernel after each step, which then clears it: on Multi30k 0.67 instead of 0.54 s of
    CPU time a step. In one arena for all threads, the block would often be at another address.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)


def set_compilation_cache(folder: str) -> None:
    """Sets JAX's persistent compilation cache to a subfolder of `folder`; "" leaves it off.

    A cache that is set already, as by JAX_COMPILATION_CACHE_DIR, stays.
    """
    import jax

    from transformer.errors import UserError
    from transformer.runtime import paths

    if paths.in_bucket(folder):
        raise UserError(f"config.compilation_cache must be a local folder, found {folder!r}")
    if folder and not jax.config.jax_compilation_cache_dir:
        # JAX does not check which CPU a program was compiled for, and machines may share a home. So
        # each kind of CPU has its own subfolder.
        cpu = Path("/proc/cpuinfo")
        text = cpu.read_text().splitlines() if cpu.exists() else []
        features = next((line for line in text if line.startswith(("flags", "Features"))), "")
        kind = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
        cache = Path(folder).expanduser() / kind
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.warning("compiled programs are not cached: %s", error)
            return
        jax.config.update("jax_compilation_cache_dir", str(cache))
        # Also programs that compile in less than a second, which JAX leaves out by default.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
