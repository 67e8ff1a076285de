"""Params by path, {'head/bias': array, ...}, and the prefixes by which a config names some."""

from typing import Any

import flax.traverse_util

Tree = Any


def flatten(params: Tree) -> dict[str, Any]:
    """Returns {'head/bias': array, ...}."""
    return flax.traverse_util.flatten_dict(params, sep="/")


def unflatten(flat: dict[str, Any]) -> Tree:
    """Returns the tree that `flatten` was given."""
    return flax.traverse_util.unflatten_dict(flat, sep="/")


def prefixes(names: str) -> list[str]:
    """Returns the prefixes in 'head, encoder/layers_0'."""
    return [name.strip() for name in names.split(",") if name.strip()]


def is_below(path: str, prefixes: list[str]) -> bool:
    """Returns whether a path is a prefix or below one, as 'head/bias' is below 'head'."""
    return any(f"{path}/".startswith(f"{prefix}/") for prefix in prefixes)
