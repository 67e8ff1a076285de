"""Settings of the process, made before JAX has its devices: allocator, garbage collection, XLA.

The head imports only the standard library, because launch.py restarts itself before other imports.
"""

import gc
import hashlib
import logging
import os
import platform
import sys
from pathlib import Path

# Settings of glibc's allocator: keep freed memory, in huge pages where available. By default each
# step returns its large arrays to the kernel, which clears them again, and a small step takes 1.35
# times as long. Only the main thread's arena keeps blocks over 64 MB, but with a single arena the
# threads that compile wait for each other.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# New objects that trigger a garbage collection; Python 3.11 has 700. JAX keeps millions of traced
# objects, and each full collection visits them, which took 2 of 16.7 s to translate 5,000 lines.
NEW_OBJECTS = 20_000

SCHEDULER = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"


def restart_with_allocator() -> None:
    """Restarts this program with ALLOCATOR in its environment, which glibc reads at start only.

    Does nothing if one of the variables is set, without glibc, or if another program, such as a
    notebook, has imported this one.
    """
    # `python -X dev launch.py A` has orig_argv [python, -X, dev, launch.py, A], and argv is its
    # last two. They differ if another program has imported this one.
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def freeze_imports() -> None:
    """Exempts all objects so far from garbage collection, and collects later ones more rarely.

    If collection is disabled during imports, as by launch.py, it saves 0.4 of 2.4 s to translate a
    line. Otherwise it does nothing.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
        gc.enable()


def schedule_for_memory() -> None:
    """Makes XLA order the operations of CPU programs for little memory, as on accelerators.

    By default XLA orders them for concurrency. On two cores a step of base then has 1.35 instead of
    0.86 GB of temporaries, and takes 1.01 times as long. Takes effect only before JAX has its
    devices. A scheduler in XLA_FLAGS stays, because XLA takes the last of several values; the name
    of a file of flags stays, too.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    is_file = flags and not flags.startswith("-")
    if SCHEDULER not in flags and not is_file:
        os.environ["XLA_FLAGS"] = f"{SCHEDULER} {flags}".rstrip()


def compute_in_calling_thread() -> None:
    """Makes a single CPU device compute in the calling thread, not in a thread of XLA.

    Takes effect only before JAX has its devices. The thread that computes a step allocates its
    arrays as one large block. With ALLOCATOR, the calling thread gets the same block at each step.
    The arena of an XLA thread would return the block to the kernel, which clears it. On Multi30k
    that takes 0.67 instead of 0.54 s of CPU time per step. In one arena for all threads, the block
    would often be at another address.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)


def cpu_features() -> str:
    """Returns Linux's line of the CPU's features, such as "flags : fpu avx512f amx_bf16", or ""."""
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text().splitlines() if cpu.exists() else []
    return next((line for line in text if line.startswith(("flags", "Features"))), "")


def set_compilation_cache(folder: str) -> None:
    """Sets JAX's persistent compilation cache to a subfolder of `folder`; "" leaves it off.

    A cache set before, as by JAX_COMPILATION_CACHE_DIR, stays.
    """
    import jax

    from transformer.errors import UserError
    from transformer.runtime import paths

    if paths.in_bucket(folder):
        raise UserError(f"config.compilation_cache must be a local folder, found {folder!r}")
    if folder and not jax.config.jax_compilation_cache_dir:
        # Each kind of CPU has its own subfolder, because machines may share a home, and JAX does
        # not check which CPU a program was compiled for.
        kind = hashlib.sha256(f"{platform.machine()} {cpu_features()}".encode()).hexdigest()[:8]
        cache = Path(folder).expanduser() / kind
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.warning("compiled programs are not cached: %s", error)
            return
        jax.config.update("jax_compilation_cache_dir", str(cache))
        # JAX's default is 1 second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
