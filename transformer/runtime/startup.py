"""Settings of the process, made before JAX has its devices: allocator, garbage collection, XLA.

Imports nothing but the standard library: launch.py restarts itself before its other imports.
"""

import gc
import os
import platform
import sys

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
