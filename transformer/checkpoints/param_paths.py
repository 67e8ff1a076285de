"""Params by path, {'head/bias': array, ...}, and the prefixes by which a config names some."""

from typing import Any

import flax.traverse_util

Tree = Any


def flatten(params: Tree) -> dict[str, Any]:
    """Returns a tree of params as {'head/bias': array, ...}."""
    return flax.traverse_util.flatten_dict(params, sep="/")


def unflatten(flat: dict[str, Any]) -> Tree:
    """Returns the tree of params of {'head/bias': array, ...}; undoes `flatten`."""
    return flax.traverse_util.unflatten_dict(flat, sep="/")


def prefixes(names: str) -> list[str]:
    """Splits 'head, encoder/layers_0' into its prefixes."""
    return [name.strip() for name in names.split(",") if name.strip()]


def is_below(path: str, prefixes: list[str]) -> bool:
    """Returns whether a path is a prefix or below one, as 'head/bias' is below 'head'."""
    # With a slash after both, 'header' is not below 'head'.
    return any(f"{path}/".startswith(f"{prefix}/") for prefix in prefixes)
