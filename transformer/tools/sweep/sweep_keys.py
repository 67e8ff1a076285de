"""The keys that only --mode=sweep reads."""

KEYS = {
    # Runs at the same time; 0: one a GPU, elsewhere one, which has all devices. Of more than there
    # are GPUs, several share a GPU and its memory.
    "sweep.processes": [0, "at least 0"],
}
