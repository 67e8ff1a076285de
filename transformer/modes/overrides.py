"""--config.KEY=VALUE: sets the keys of a config, and explains each mistake in them."""

import ast
import sys

from absl import flags
from ml_collections import ConfigDict, config_flags

from transformer.errors import UserError
from transformer.modes.near_names import did_you_mean_key
from transformer.registry import MODES, load
from transformer.workdir.config_files import KINDS, flatten


def mode_keys(mode: str) -> ConfigDict:
    """Returns the keys that only this mode reads, with their defaults."""
    return load(MODES[mode].keys)() if MODES[mode].keys else ConfigDict()


def override(config: ConfigDict, arguments: list[str], mode: str = "train") -> ConfigDict:
    """Returns the config with the mode's own keys added and --config.KEY=VALUE arguments applied.

    A config file may have set keys of some modes; those of the others are dropped, so that a run
    keeps only what it reads. UserError for wrong arguments, or a key that the mode does not have.
    """
    for name in MODES:
        for group, keys in mode_keys(name).items():
            given = config.get(group, ConfigDict())
            for key in given:
                if key not in keys:
                    hint = did_you_mean_key(f"{group}.{key}", flatten(mode_keys(name)))
                    raise UserError(f"nothing reads config.{group}.{key} of the config{hint}")
            if name == mode:
                keys.update(given)
                config[group] = keys
            elif group in config:
                del config[group]
    set_optimizer_arguments(config, arguments)
    current = flatten(config)
    for argument in arguments:
        key, has_value = key_of(argument), "=" in argument
        if key not in current:
            for name in MODES:
                if key in flatten(mode_keys(name)):
                    raise UserError(f"{argument}: config.{key} is read by --mode={name} only")
            group = [f"config.{k}" for k in current if k.startswith(f"{key}.")]
            keys = f"; its keys are {', '.join(group)}" if group else did_you_mean_key(key, current)
            raise UserError(f"{argument}: there is no key config.{key}{keys}")
        # absl spells True as --config.KEY and False as --noconfig.KEY.
        is_switch = isinstance(current[key], bool) and not has_value
        if not is_switch and not (has_value and argument.startswith("--config")):
            raise UserError(f"{argument}: expected --config.{key}=VALUE, such as {current[key]!r}")
    # Each argument is parsed by itself, so that the message about a wrong value can quote it.
    values = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=arguments)
    for argument in arguments:
        try:
            values([sys.argv[0], argument])
        except flags.IllegalFlagValueError as error:
            value = current[key := key_of(argument)]
            kind = f"{KINDS[type(value)]}, such as {value!r}"
            raise UserError(f"{argument}: config.{key} is {kind}") from error
    return config


def set_optimizer_arguments(config: ConfigDict, arguments: list[str]) -> None:
    """Adds the optimizer's and the schedule's keys that only the command line sets.

    Any key is accepted, because the optimizer and the schedule check their arguments later. If the
    command line names another optimizer or schedule, the config's keys of the old one are deleted.
    """
    given = {key_of(a): a.partition("=")[2] for a in arguments if "=" in a}
    current = flatten(config)
    for choice, group in ("optimizer.name", "arguments"), ("optimizer.schedule.name", "schedule"):
        prefix = f"optimizer.{group}."
        replaced = given.get(choice, current.get(choice)) != current.get(choice)
        for key in current:
            if replaced and key.startswith(prefix) and key not in given:
                del config.optimizer[group][key.removeprefix(prefix)]
        for key in given.keys() - current.keys():
            if key.startswith(prefix) and "." not in (name := key.removeprefix(prefix)):
                config.optimizer[group][name] = literal(given[key])


def literal(text: str) -> object:
    """Returns the number, bool or tuple that a text spells, otherwise the text."""
    try:
        value = ast.literal_eval(text.title() if text.lower() in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | tuple) else text


def key_of(argument: str) -> str:
    """Returns the config key that an argument sets: '--noconfig.data.pack' -> 'data.pack'."""
    name = argument.partition("=")[0]
    return name.removeprefix("--no").removeprefix("--").removeprefix("config.")
