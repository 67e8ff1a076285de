"""Arguments of calls of a trained model: changes of its config, and one input or several."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from transformer.errors import UserError, did_you_mean
from transformer.workdir import key_tables


def changed(config: ConfigDict, section: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of config.SECTION with changes.

    UserError for an unknown key or a wrong value.
    """
    if changes:
        for key in changes:
            if key not in config[section]:
                hint = did_you_mean(key, config[section])
                raise UserError(f"there is no key config.{section}.{key}{hint}")
        _, table = key_tables.task_table(config)
        key_tables.check_values({f"{section}.{key}": x for key, x in changes.items()}, table)
    return {**config[section], **changes}


def like_input(inputs: Any, answers: Iterator, single: type | tuple[type, ...] = str) -> Any:
    """Returns one answer for one input, an iterator for an iterator, and otherwise a list."""
    if isinstance(inputs, single):
        return next(answers)
    return answers if isinstance(inputs, Iterator) else list(answers)


def several(inputs: Any, single: type | tuple[type, ...] = str) -> Iterable:
    """Returns one input as a list, and several unchanged; UserError for anything else."""
    if isinstance(inputs, single):
        return [inputs]
    if not isinstance(inputs, Iterable) or isinstance(inputs, bytes | Mapping):
        raise UserError(f"expected one input, a list or a generator, found {inputs!r:.80}")
    return inputs
