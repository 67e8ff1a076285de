"""The keys that only --mode=profile reads."""

from ml_collections import ConfigDict


def keys() -> ConfigDict:
    return ConfigDict({"profile": {"steps": 3}})  # steps to trace, after ten that compile
