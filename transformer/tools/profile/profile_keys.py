"""The keys that only --mode=profile reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    options = ConfigDict()
    options.steps = 3  # steps to trace, after ten others, the first of which compile
    return ConfigDict({"profile": options})
