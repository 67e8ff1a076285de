"""A model's fields, flat as the keys of config.model, and checks of their values.

Models share fields by a record, such as `layer_options.LayerOptions`: a frozen dataclass that is
one field of the model. In config.model its fields stand beside the model's own.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn

from transformer import registry
from transformer.errors import UserError, check_value

FLAX = {"parent", "name"}  # fields that every flax module has
METHODS = ("encode", "prepare", "step")  # that decoding calls


def build(architecture: str, fields: dict, **sizes: int | float) -> nn.Module:
    """Imports and builds the model of this name in registry.MODELS.

    `sizes` are the fields that depend on the data, such as source_vocab_size and num_classes.
    UserError if the table lacks the name, if the model is another task's, or if `fields` are not
    exactly the model's remaining fields.
    """
    model = registry.find(registry.MODELS, "architecture", architecture)
    known = names(model)
    if lacking := sizes.keys() - known:
        raise UserError(
            f"config.architecture={architecture!r} is a model of another task: "
            f"{model.__name__} has no {', '.join(sorted(lacking))}"
        )
    # The remaining fields must equal the keys of config.model.
    known -= sizes.keys()
    for field in sorted(known ^ fields.keys()):
        lacks = f"is not a field of {model.__name__}" if field in fields else "is missing"
        raise UserError(f"config.model.{field} {lacks}: the fields are {', '.join(sorted(known))}")
    return make(model, **fields, **sizes)


def names(model: type[nn.Module]) -> set[str]:
    """Returns the names of a model's fields, with records replaced by their fields."""
    flat = {f.name for f in dataclasses.fields(model)} - FLAX
    # {options, dtype} becomes {d_model, d_ff, ..., dtype}.
    for name, record in _records(model).items():
        flat = flat - {name} | {f.name for f in dataclasses.fields(record)}
    return flat


def make(model: type[nn.Module], **values: Any) -> nn.Module:
    """Makes a model from the values of its fields, flat as in config.model."""
    for name, record in _records(model).items():
        values[name] = record(**{f.name: values.pop(f.name) for f in dataclasses.fields(record)})
    return model(**values)


def values(model: nn.Module) -> dict[str, Any]:
    """Returns the values of a model's fields, flat as in config.model."""
    flat = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    for name in _records(model):
        flat |= vars(flat.pop(name))
    return {name: value for name, value in flat.items() if name not in FLAX}


def _records(model: nn.Module | type[nn.Module]) -> dict[str, type]:
    """Returns {field: type} for the fields of a model that are records."""
    types = {f.name: f.type for f in dataclasses.fields(model)}
    # Modules are dataclasses, too, but not records.
    is_record = lambda x: dataclasses.is_dataclass(x) and not issubclass(x, nn.Module)
    return {name: x for name, x in types.items() if is_record(x)}


def check_rules(model: nn.Module, rules: Mapping[str, str | Sequence]) -> None:
    """Raises UserError for a field that breaks its rule (see `errors.check_value`)."""
    flat = values(model)
    for name, rule in rules.items():
        check_value(f"model.{name}", flat[name], rule)


def check_methods(model: nn.Module, otherwise: str = "") -> None:
    """Raises UserError for a model that lacks one of the METHODS.

    `otherwise` ends the message with an alternative for the user.
    """
    if lacking := [name for name in METHODS if not hasattr(model, name)]:
        raise UserError(
            f"{type(model).__name__} cannot be decoded without the methods {', '.join(lacking)}, "
            f"described in models/__init__.py{otherwise}"
        )


def check_positions(model: nn.Module, length: int, what: str) -> None:
    """Raises UserError if a model has fewer positions than `length`; `what` describes it."""
    if (limit := getattr(model, "position_limit", math.inf)) < length:
        raise UserError(
            f"config.model.max_positions={limit} learned positions are fewer than {what}"
        )


def check_shared_vocabulary(model: nn.Module, *, otherwise: str) -> None:
    """Raises UserError for tied_embeddings='all' with two vocabularies.

    `otherwise` ends the message with the model's alternative.
    """
    if model.tied_embeddings == "all" and model.source_vocab_size != model.target_vocab_size:
        raise UserError(
            "config.model.tied_embeddings='all' needs one vocabulary for both sides: set "
            f"config.vocabulary.shared=True, or {otherwise}"
        )
