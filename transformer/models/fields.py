"""Checks the values of a model's fields; each error message names the config key."""

import flax.linen as nn

from transformer.errors import UserError, check_values


def check_choices(model: nn.Module, choices: dict[str, tuple]) -> None:
    """Raises UserError for a field that is not one of its choices."""
    check_values("model", {name: getattr(model, name) for name in choices}, choices)


def check_at_least(model: nn.Module, least: int, names: tuple[str, ...]) -> None:
    """Raises UserError for a field below `least`."""
    values = {name: getattr(model, name) for name in names}
    check_values("model", values, dict.fromkeys(names, f"at least {least}"))


def check_even(model: nn.Module, least: int, names: tuple[str, ...]) -> None:
    """Raises UserError for a field that is odd or below `least`."""
    for name in names:
        if (value := getattr(model, name)) < least or value % 2:
            raise UserError(f"config.model.{name}={value} must be even and at least {least}")


def check_methods(model: nn.Module, names: tuple[str, ...], otherwise: str = "") -> None:
    """Raises UserError for a model that lacks one of the methods that decoding calls.

    `otherwise` says what else would be right.
    """
    if lacking := [name for name in names if not hasattr(model, name)]:
        raise UserError(
            f"{type(model).__name__} cannot be decoded without the methods {', '.join(lacking)}, "
            f"of which models/__init__.py says what they do{otherwise}"
        )


def check_shared_vocabulary(model: nn.Module, *, otherwise: str) -> None:
    """Raises UserError for tied_embeddings='all' with two vocabularies.

    `otherwise` says which other value of the model's tied_embeddings would be right.
    """
    if model.tied_embeddings == "all" and model.source_vocab_size != model.target_vocab_size:
        raise UserError(
            "config.model.tied_embeddings='all' needs one vocabulary for both sides: set "
            f"config.vocabulary.shared=True, or {otherwise}"
        )


def check_rates(model: nn.Module, names: tuple[str, ...]) -> None:
    """Raises UserError for a rate outside [0, 1), as float32: a rate of 1 would drop everything."""
    values = {name: getattr(model, name) for name in names}
    check_values("model", values, dict.fromkeys(names, "at least 0 and below 1"))
