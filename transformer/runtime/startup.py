"""Settings of the process, made before JAX has its devices: allocator, garbage collection, XLA.

Imports nothing but the standard library: launch.py restarts itself before its other imports.
"""

import logging
import os
import platform
import select
import signal
import sys
import threading

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

# The flags of XLA that choose its scheduler for CPUs, a new and an old one, and our choice.
SCHEDULERS = ("xla_cpu_scheduler_type", "xla_cpu_enable_concurrency_optimized_scheduler")
SCHEDULER = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"


def restart_with_allocator() -> None:
    """Restarts this program with ALLOCATOR in its environment, which glibc reads at start only.

    Does nothing if one of the variables is set already, without glibc, or if another program, such
    as a notebook, has imported this one. The new process begins with Ctrl-C blocked.
    """
    # `python -X dev launch.py A` has orig_argv [python, -X, dev, launch.py, A], of which the last
    # two are argv. Where they differ, another program, such as a notebook, has imported this one.
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def watch_ctrl_c() -> None:
    """Makes a second Ctrl-C end the process at once, with status 130.

    A log line says so if the first has not ended the process after a second.

    Python acts on a signal between two of its own instructions: not before a program that is
    computed in the calling thread has ended. So a thread reads the signals' numbers from a pipe.
    """
    numbers, write = os.pipe()
    # Non-blocking: the signal handler must not wait if the pipe is full.
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def interrupted(seconds: float | None = None) -> bool:
        while select.select([numbers], [], [], seconds)[0]:
            if os.read(numbers, 1)[0] == signal.SIGINT:
                return True
        return False

    def watch() -> None:
        interrupted()
        if not interrupted(1.0):
            logging.warning(
                "Ctrl-C waits for what is being computed or saved; a second one ends at once"
            )
            interrupted()
        os._exit(130)

    # A daemon: the thread waits for signals forever, and must not keep the process from ending.
    threading.Thread(target=watch, daemon=True).start()


def schedule_for_memory() -> None:
    """Makes XLA order the operations of CPU programs for little memory, as on accelerators.

    By default it orders them so that many can be computed at the same time. On two cores a step of
    base then has 1.35 instead of 0.86 GB of temporaries, and takes 1.01 times as long. Takes effect
    only before JAX has its devices. Changes nothing if XLA_FLAGS has a scheduler for CPUs, or is
    the name of a file of flags.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    is_file = flags and not flags.startswith("-")
    if not is_file and not any(name in flags for name in SCHEDULERS):
        os.environ["XLA_FLAGS"] = f"{flags} {SCHEDULER}".lstrip()
