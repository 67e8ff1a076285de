"""The keys that only --mode=align reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    config = ConfigDict()
    config.attention = ConfigDict()
    config.attention.layer = 0  # decoder layer to align by, from 1; 0: the mean of all layers
    config.attention.head = 0  # head to align by, from 1; 0: the mean of all heads
    config.attention.pairs = 100  # pairs whose attention weights are saved in attention.npz
    return config
