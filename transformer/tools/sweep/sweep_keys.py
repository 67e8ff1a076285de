"""The keys that only --mode=sweep reads."""

KEYS = {
    # Simultaneous runs; 0: one per GPU, without GPUs one on all devices. With more runs than GPUs,
    # several share a GPU and its memory.
    "sweep.processes": [0, "at least 0"],
}
