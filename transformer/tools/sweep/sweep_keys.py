"""The keys that only --mode=sweep reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.sweep = ConfigDict()
    # Runs at the same time; 0: one a GPU, elsewhere one, which has all devices. Of more than there
    # are GPUs, several share a GPU and its memory.
    config.sweep.processes = 0
    return config
