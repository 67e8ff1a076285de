"""The keys of a config, with their types and rules.

configs/TASK.py has a table of a task's keys, and a mode with its own keys has another table:
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
# {key: the group whose keys depend on its value}, as 'sgd' and 'adam' differ in their arguments.
CHOICES = {
    "architecture": "model",
    "optimizer.name": "optimizer.arguments",
    "optimizer.schedule.name": "optimizer.schedule",
}


def task_table(config: ConfigDict) -> tuple[ConfigDict, dict]:
    """Returns the defaults of a config's task, and the table of its keys.

    The defaults lack the keys of the default architecture, optimizer or schedule if the config
    names another. UserError if the config names no task.
    """
    task = config.get("task")
    values = flatten(config)
    check_value("task", task, tuple(registry.TASKS))
    defaults, table = config_files.load(str(config_files.CONFIGS / f"{task}.py"))
    default_values = flatten(defaults)
    for choice, group in CHOICES.items():
        default = default_values.get(choice)
        if values.get(choice, default) != default:
            defaults.update_from_flattened_dict({group: ConfigDict()})
            if choice == "architecture":  # types stay, but another architecture has other rules
                model = {key: default_of(x) for key, x in table.items() if key.startswith("model.")}
                table = table | model
    return defaults, table


def mode_table(mode: str) -> dict:
    """Returns the table of a mode's own keys."""
    keys = registry.MODES[mode].keys
    return registry.load(keys) if keys else {}


def set_mode_keys(config: ConfigDict, mode: str) -> ConfigDict:
    """Adds a mode's own keys to a config, with their defaults, and drops those of other modes.

    A config file may set keys of several modes; a run keeps only the keys that it reads. UserError
    for an unknown key in the mode's group.
    """
    values = flatten(config)
    table = mode_table(mode)
    group_of = lambda key: key.partition(".")[0]
    own = set(map(group_of, table))
    for key in values:
        if group_of(key) in own and key not in table:
            raise UserError(f"nothing reads config.{key} of the config{did_you_mean(key, table)}")
    for group in {group_of(key) for name in registry.MODES for key in mode_table(name)} & {*config}:
        del config[group]
    config.update({group: {} for group in own})
    given = {key: values.get(key, default_of(entry)) for key, entry in table.items()}
    config.update_from_flattened_dict(given)
    return config


def check(config: ConfigDict, mode: str = "train") -> None:
    """Raises UserError for a key that is missing, has another type, or breaks its rule.

    The keys are those of the mode and of the config's task; a mode that starts from several configs
    has no task. A config may have further keys.
    """
    defaults, table = ConfigDict(), {}
    if registry.MODES[mode].start != "configs":
        defaults, table = task_table(config)
    values = flatten(config)
    check_values(values, table | mode_table(mode))
    if lacking := [key for key in flatten(defaults) if key not in values]:
        raise UserError(f"the config lacks config.{lacking[0]}, a key of configs/{config.task}.py")


def check_values(values: dict[str, object], table: dict) -> None:
    """Raises UserError for the first of {key: value} that the table does not allow.

    A value has the type of the default, but a float may be an int. A key that the table lacks may
    be any number, string or tuple.
    """
    for key, value in values.items():
        entry = table.get(key)
        default = default_of(entry)
        # By type(), because isinstance accepts True as an integer.
        given, expected = type(value), type(default)
        if key in table and given is not expected and (given, expected) != (int, float):
            raise UserError(f"config.{key} must be {kind_of(default)}, found {value!r}")
        if not isinstance(value, tuple(KINDS)):
            raise UserError(f"config.{key} must be a number, a string or a tuple, found {value!r}")
        # `not <=` instead of `>`, because any comparison with NaN is False.
        if isinstance(value, float) and not abs(value) <= FLOAT32_MAX:
            raise UserError(f"config.{key} must be a finite number in float32, found {value}")
        if isinstance(value, int) and not abs(value) < 2**31:
            raise UserError(f"config.{key} must be below 2^31, found {value}")
        if isinstance(entry, list):
            rule = entry[1]
            if isinstance(rule, str) and "registry." in rule:  # "a name in registry.METHODS"
                rule = tuple(getattr(registry, rule.rpartition(".")[2]))
            check_value(key, value, rule)


def kind_of(default: object) -> str:
    """Describes the values of a key with this default: 'an integer, such as 3'."""
    return f"{KINDS[type(default)]}, such as {default!r}"


def default_of(entry: object) -> object:
    """Returns the default in a table's entry, which may be [default, rule]."""
    return entry[0] if isinstance(entry, list) else entry


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """Returns a config as {'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value  # a number is a key, too, in a config file
    return flat
