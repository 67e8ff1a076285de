"""Checks the values of a model's fields; each error message names the config key."""

import flax.linen as nn
import numpy as np

from transformer.errors import UserError


def check_choices(model: nn.Module, choices: dict[str, tuple]) -> None:
    """Raises UserError for a field that is not one of its choices."""
    for name, allowed in choices.items():
        if (value := getattr(model, name)) not in allowed:
            raise UserError(
                f"config.model.{name} is one of {', '.join(map(repr, allowed))}, found {value!r}"
            )


def check_at_least(model: nn.Module, least: int, names: tuple[str, ...]) -> None:
    """Raises UserError for a field below `least`."""
    for name in names:
        if not (value := getattr(model, name)) >= least:  # so that NaN is an error, too
            raise UserError(f"config.model.{name} is at least {least}, found {value}")


def check_even(model: nn.Module, names: tuple[str, ...]) -> None:
    """Raises UserError for a field that is not an even number of at least 2."""
    for name in names:
        if (value := getattr(model, name)) < 2 or value % 2:
            raise UserError(f"config.model.{name} is an even number of at least 2, found {value}")


def check_rates(model: nn.Module, names: tuple[str, ...]) -> None:
    """Raises UserError for a rate outside [0, 1), as float32: a rate of 1 would drop everything."""
    for name in names:
        if not 0 <= np.float32(value := getattr(model, name)) < 1:
            raise UserError(f"config.model.{name} is from 0 to below 1, found {value}")
