"""The keys of a config: which there are, of which type, and the rules that their values fulfil.

configs/TASK.py has a table of all keys of a task, and a mode with keys of its own has another one:
{"train.num_steps": [100_000, "at least 1"], ...}, as configs/_keys.py explains.
"""

from ml_collections import ConfigDict

from transformer import registry
from transformer.errors import UserError, check_value, did_you_mean
from transformer.workdir import config_files

FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
KINDS = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    tuple: "a tuple",
}
# {key: the group whose keys depend on its value}: 'sgd' has other arguments than 'adam'.
CHOICES = {
    "architecture": "model",
    "optimizer.name": "optimizer.arguments",
    "optimizer.schedule.name": "optimizer.schedule",
}


def task_table(config: ConfigDict) -> tuple[ConfigDict, dict]:
    """Returns the defaults of a config's task, and the table of its keys.

    They are without the keys of the default architecture, optimizer or schedule where the config
    names another one. UserError if the config names no task.
    """
    task = config.get("task")
    if not isinstance(task, str) or task not in registry.TASKS:
        raise UserError(
            f"config.task must be one of {', '.join(registry.TASKS)}, found {task!r} (start your "
            "config from one of those in configs/, as in config = translation.get_config())"
        )
    defaults, table = config_files.load(str(config_files.CONFIGS / f"{task}.py"))
    values, default_values = flatten(config), flatten(defaults)
    for choice in CHOICES:
        default = default_values.get(choice, "")
        chosen = values.get(choice, default)
        check_type(choice, chosen, default)
        if chosen != default:
            choose(defaults, choice, chosen)
            if choice == "architecture":  # another one has other rules, but a key has one type
                model = {key: default_of(x) for key, x in table.items() if key.startswith("model.")}
                table = table | model
    return defaults, table


def choose(config: ConfigDict, choice: str, value: str) -> None:
    """Sets a key of CHOICES; the keys that depended on the old value are dropped."""
    config.update_from_flattened_dict({CHOICES[choice]: ConfigDict()})
    config.update_from_flattened_dict({choice: value})


def mode_table(mode: str) -> dict:
    """Returns the table of the keys that only this mode reads."""
    keys = registry.MODES[mode].keys
    return registry.load(keys) if keys else {}


def set_mode_keys(config: ConfigDict, mode: str) -> ConfigDict:
    """Gives a config the keys of a mode, with their defaults unless it has them, and no other's.

    A config file may set keys of several modes; a run keeps only what it reads.
    """
    for name in registry.MODES:
        table = mode_table(name)
        for group in {key.partition(".")[0] for key in table}:
            given = config.get(group, ConfigDict())
            if group in config:
                del config[group]
            for key in given:
                if f"{group}.{key}" not in table:
                    hint = did_you_mean(f"{group}.{key}", table)
                    raise UserError(f"nothing reads config.{group}.{key} of the config{hint}")
            if name == mode:
                own = {key.partition(".")[2]: default_of(entry) for key, entry in table.items()}
                config[group] = own | dict(given)
    return config


def check(config: ConfigDict, mode: str = "train") -> None:
    """Raises UserError for a key that is missing, of another type, or breaks its rule.

    The keys are those of the mode and of the config's task, which a mode of several configs has
    not. A config may have further ones.
    """
    defaults, table = ConfigDict(), {}
    if registry.MODES[mode].start != "configs":
        defaults, table = task_table(config)
    check_values(values := flatten(config), table | mode_table(mode))
    if lacking := [key for key in flatten(defaults) if key not in values]:
        raise UserError(
            f"the config lacks config.{lacking[0]} ({len(lacking)} keys in all), which "
            f"{config.task}.get_config() of configs/{config.task}.py has"
        )


def check_values(values: dict[str, object], table: dict) -> None:
    """Raises UserError for the first of {key: value} that the table does not allow."""
    for key, value in values.items():
        if key in table:
            check_type(key, value, default_of(table[key]))
        # Not `>`, which is False for NaN.
        if isinstance(value, float) and not abs(value) <= FLOAT32_MAX:
            raise UserError(f"config.{key} must be a finite number in float32, found {value}")
        if key in table and isinstance(table[key], list):
            rule = table[key][1]
            if isinstance(rule, str) and "registry." in rule:  # "a name in registry.METHODS"
                rule = tuple(getattr(registry, rule.rpartition(".")[2]))
            check_value(key, value, rule)
        if not isinstance(value, tuple(KINDS)):
            raise UserError(f"config.{key} must be a number, a string or a tuple, found {value!r}")
        if isinstance(value, int) and not abs(value) < 2**31:
            raise UserError(f"config.{key} must be below 2^31, found {value}")


def check_type(key: str, value: object, default: object) -> None:
    """Raises UserError for a value whose type is not that of the default.

    An int is accepted for a float.
    """
    # By type(), because isinstance takes True for an integer.
    if type(value) is not type(default) and (type(value), type(default)) != (int, float):
        raise UserError(f"config.{key} must be {kind_of(default)}, found {value!r}")


def kind_of(default: object) -> str:
    """Says what a value of a key with this default must be: 'an integer, such as 3'."""
    return f"{KINDS[type(default)]}, such as {default!r}"


def default_of(entry: object) -> object:
    """Returns the default of a key, whose entry in a table may be [default, rule]."""
    return entry[0] if isinstance(entry, list) else entry


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """Returns a config as {'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
