"""The keys that only --mode=align reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    options = ConfigDict()
    options.layer = 0  # decoder layer to align by, from 1; 0: the mean of all layers
    options.head = 0  # head to align by, from 1; 0: the mean of all heads
    options.pairs = 100  # pairs whose attention weights are saved in attention.npz
    return ConfigDict({"attention": options})
