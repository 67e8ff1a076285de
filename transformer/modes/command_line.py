"""The command line: parses it into mode, workdir and config, and explains each mistake in it.

launch.py has the three flags --config, --workdir and --mode; every key of a config is set by
--config.KEY=VALUE, which ml_collections parses.
"""

import logging
import sys
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict, config_flags

from transformer import registry
from transformer.errors import UserError, did_you_mean
from transformer.registry import MODES
from transformer.runtime import paths
from transformer.workdir import config_files, key_tables, saved_config
from transformer.workdir.key_tables import flatten


def modes_help() -> str:
    """Returns the lines of --help about modes, two for each mode."""
    return "\n".join(
        f"  --mode={name} {mode.arguments}\n      {mode.about}" for name, mode in MODES.items()
    )


def parse(arguments: list[str]) -> tuple[str, Path | tuple[Path, ...], ConfigDict]:
    """Parses the command line into (mode, workdir, config); UserError for a mistake in it.

    For a mode that starts from several workdirs, workdir is the tuple of them, and config is that
    of the first. For a mode that takes a folder, workdir is (folder, workdir). For a mode that
    starts from a file of several configs, config has the keys of the mode, and `arguments`, those
    that set keys of the file's configs.
    """
    values = flags.FlagValues()
    for name, default in (("config", ""), ("mode", "train"), ("workdir", "")):
        flags.DEFINE_string(name, default, "", flag_values=values)
    try:
        # absl parses the three flags and leaves the keys of the config, which `set_keys` parses.
        remaining = values([sys.argv[0], *arguments], known_only=True)[1:]
    except flags.Error as error:
        raise UserError(f"{error} (see --help)") from error
    file, mode, workdir = values.config, values.mode, values.workdir
    if mode not in MODES:
        raise UserError(
            f"--mode must be one of {', '.join(MODES)}, found {mode!r}{did_you_mean(mode, MODES)}"
        )
    if values["workdir"].present and not workdir:
        raise UserError("--workdir= is empty, expected --workdir=DIR (an unset shell variable?)")
    # Folders are positional; an argument that begins with a dash is a flag, or sets a key.
    start = MODES[mode].start
    takes_folders = MODES[mode].folder or start == "workdirs"
    folders = [x for x in remaining if takes_folders and not x.startswith("-")]
    keys = [x for x in remaining if x not in folders]
    check_start(mode, file, workdir, folders, keys)
    if file and not workdir:
        # configs/base.py:flickr trains in runs/base-flickr.
        name, _, variant = Path(file).name.partition(":")
        workdir = "runs/" + "-".join(filter(None, [name.removesuffix(".py"), variant]))
    if start == "configs" and not workdir:
        workdir = f"runs/{Path(folders[0]).stem}"
    # The workdir is the last of the places: (FOLDER, WORKDIR), or several workdirs.
    places = tuple(map(paths.path, filter(None, [*folders, workdir])))
    saved_config.check_workdir(places[-1])
    if file:
        config = config_files.load_config(file)
    elif mode == "train":
        config = resumed_config(places[0], keys)
    elif start == "foreign":
        config = imported_config(places[0], keys)
    elif start == "configs":
        own = tuple(f"--config.{key.partition('.')[0]}." for key in key_tables.mode_table(mode))
        of_configs = tuple(x for x in keys if not x.startswith(own))
        keys = [x for x in keys if x not in of_configs]
        config = ConfigDict({"arguments": of_configs, "compilation_cache": "", "kernels": "plain"})
    else:
        config = trained_config(places[0] if start == "workdirs" else places[-1], keys)
    config = set_keys(config, keys, mode)
    if MODES[mode].tasks and config.task not in MODES[mode].tasks:
        # Suggests the modes of this task alone, or where there are none, those of every task.
        of_task = [name for name, x in MODES.items() if config.task in x.tasks]
        available = of_task or [name for name, x in MODES.items() if not x.tasks]
        raise UserError(
            f"--mode={mode} is not available for the task {config.task!r}, which has "
            f"{', '.join(f'--mode={name}' for name in available)}"
        )
    return mode, places if takes_folders else places[0], config


def check_start(mode: str, file: str, workdir: str, folders: list[str], keys: list[str]) -> None:
    """Raises UserError unless a mode has the flags and the folders that it starts from."""
    start = MODES[mode].start
    if start == "config":
        is_right = file or (workdir and mode == "train")
    elif start == "workdirs":
        different = {paths.path(folder) for folder in folders}
        is_right = len(different) == len(folders) > 1 and not file and not workdir
    elif start == "configs":
        is_right = len(folders) == 1 and not file
    else:
        is_right = workdir and not file and len(folders) == MODES[mode].folder
    if not is_right:
        given = [f"--{name}={x}" for name, x in (("config", file), ("workdir", workdir)) if x]
        raise UserError(
            f"expected --mode={mode} {MODES[mode].arguments}, found "
            f"{' '.join([*folders, *given, *keys]) or 'none of these'} (see --help)"
        )


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns a trained workdir's config; UserError for an argument that its params depend on."""
    config = saved_config.read_with_defaults(workdir)
    values = flatten(config)
    for argument in arguments:
        key = key_of(argument)
        if key in values and saved_config.affects_params(key):
            raise UserError(
                f"{argument}: the checkpoints in {workdir} were trained with {values[key]!r}"
            )
    return config


def resumed_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of a run that is resumed without its --config.

    UserError if there is no checkpoint to resume from: a new run reads keys that are never taken
    from a workdir. Such a key is logged if its value in config.json differs.
    """
    from transformer.checkpoints.manager import resumable  # imports JAX

    config = trained_config(workdir, arguments)
    if not resumable(workdir):
        raise UserError(f"{workdir} has no checkpoint to resume from: give --config=FILE")
    decay = "optimizer.schedule.decay_steps"
    if flatten(config).get(decay) == config.train.num_steps and decay not in map(key_of, arguments):
        # decay_steps follows num_steps, as in the configs: with more steps the learning rate decays
        # over all of them, and does not stay at its last value.
        config.optimizer.schedule.decay_steps = config.train.get_ref("num_steps")
    values, saved = flatten(config), flatten(saved_config.read_config(workdir))
    of_machine = {key: x for key, x in saved.items() if key.startswith(saved_config.MACHINE)}
    if left := [f"{key}={x!r}" for key, x in of_machine.items() if x != values.get(key, x)]:
        file = workdir / "config.json"
        logging.info("not taken from %s, as from no workdir's: %s", file, ", ".join(left))
    return config


def imported_config(folder: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of the run that a folder was exported from, else the defaults."""
    if saved_config.is_exported(folder):
        return trained_config(folder, arguments)
    config = config_files.default_config()
    # Not WMT's text and languages: `import_model` fills in what the model names.
    config.data.update(corpus="parallel_text", source_language="", target_language="")
    return config


def set_keys(config: ConfigDict, arguments: list[str], mode: str = "train") -> ConfigDict:
    """Returns the config with the mode's own keys and those of --config.KEY=VALUE set, and checked.

    UserError for a key that there is not, or a wrong value. Any key below optimizer.arguments and
    optimizer.schedule is accepted: optimizer and schedule check their keys when they are built. A
    new optimizer or schedule starts without the config's keys of the old one.
    """
    key_tables.set_mode_keys(config, mode)
    for argument in arguments:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise UserError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                "--mode=MODE or --config.KEY=VALUE, each with its '='"
                f"{hint(key_of(argument), flatten(config))}"
            )
    by_key = {key_of(argument): argument for argument in arguments}  # of a repeated key, the last
    for choice in ("optimizer.name", "optimizer.schedule.name"):
        _, _, name = by_key.get(choice, "").partition("=")
        if name and name != flatten(config)[choice]:
            key_tables.choose(config, choice, name)
    for key, argument in by_key.items():
        set_key(config, key, argument)
    key_tables.check(config, mode)
    # Locked: from here on a mistyped key raises an error instead of being added.
    return config.lock()


def set_key(config: ConfigDict, key: str, argument: str) -> None:
    """Sets a key by an argument of the command line, in the type of its current value."""
    values = flatten(config)
    if key.endswith("fingerprint"):
        raise UserError(f"{argument}: config.{key} is a hash of what the run reads: it fills it in")
    if key not in values and not key.startswith(("optimizer.arguments.", "optimizer.schedule.")):
        for name in MODES:
            if key in key_tables.mode_table(name):
                raise UserError(f"{argument}: config.{key} is read by --mode={name} only")
        raise UserError(f"{argument}: there is no key config.{key}{hint(key, values)}")
    parsed = flags.FlagValues()
    try:
        config_flags.DEFINE_config_dict(
            "config",
            config,
            flag_values=parsed,
            lock_config=False,
            accept_new_attributes=True,  # of an optimizer and a schedule
            sys_argv=[argument],
        )
        parsed(["", argument])
    except (flags.Error, ValueError, KeyError, TypeError) as error:
        kind = key_tables.kind_of(values.get(key, 0.0))
        raise UserError(f"{argument}: config.{key} must be {kind}") from error


def key_of(argument: str) -> str:
    """Returns the config key that an argument sets: '--noconfig.data.pack' -> 'data.pack'."""
    name = argument.partition("=")[0]
    return name.removeprefix("--no").removeprefix("--").removeprefix("config.")


def hint(name: str, values: dict[str, object]) -> str:
    """Returns '; did you mean X?' for a key that there is not, '' if no key is close."""
    if registry.HELP:
        return registry.load(registry.HELP["key"])(name, values)
    return did_you_mean(name, values)
