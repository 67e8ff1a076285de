"""JAX's persistent compilation cache: a later process reads a compiled program from disk."""

import hashlib
import logging
import platform
from pathlib import Path

import jax

from transformer.errors import UserError
from transformer.runtime import paths


def set_compilation_cache(folder: str) -> None:
    """Sets JAX's persistent compilation cache to a subfolder of `folder`; "" leaves it off.

    A cache that is set already, as by JAX_COMPILATION_CACHE_DIR, stays.
    """
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
