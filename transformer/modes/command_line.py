"""Parses the command line into mode, workdir and config, and explains mistakes in it.

launch.py has three flags, --config, --workdir and --mode. --config.KEY=VALUE sets any config key;
ml_collections parses the value.
"""

import sys
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict, config_flags

from transformer import registry
from transformer.errors import UserError, did_you_mean
from transformer.registry import MODES
from transformer.runtime import paths
from transformer.workdir import config_files, key_tables, saved_config


def modes_help() -> str:
    """Returns the part of --help about modes, two lines per mode."""
    texts = (f"  --mode={name} {x.arguments}\n      {x.about}" for name, x in MODES.items())
    return "\n".join(texts)


def parse(arguments: list[str]) -> tuple[str, Path | tuple[Path, ...], ConfigDict]:
    """Parses the command line into (mode, workdir, config); UserError for a mistake.

    If a mode starts from several workdirs, workdir is their tuple, and config is the first's. If a
    mode takes a folder, workdir is (folder, workdir). If a mode starts from a file of several
    configs, config has the mode's own keys, and in `arguments` the settings of the file's configs.
    """
    values = flags.FlagValues()
    for name, default in (("config", ""), ("mode", "train"), ("workdir", "")):
        flags.DEFINE_string(name, default, "", flag_values=values)
    try:
        # absl parses the three flags, and `set_keys` the remaining keys of the config.
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
    # Folders are positional; flags, and settings of keys, begin with a dash.
    takes_folders = MODES[mode].folder or MODES[mode].start in ("workdirs", "foreign", "configs")
    settings = [x for x in remaining if x.startswith("-") or not takes_folders]
    folders = [paths.path(x) for x in remaining if x not in settings]
    match MODES[mode].start:
        case "config" if file:
            config = config_files.load_config(file)
            # configs/base.py:flickr -> runs/base-flickr
            name = Path(file).name.replace(".py:", ":").removesuffix(".py").replace(":", "-")
            workdir = workdir or f"runs/{name}"
        case "config" if workdir and mode == "train":
            config = resumed_config(paths.path(workdir), settings)
        case "workdir" if workdir and not file and len(folders) == MODES[mode].folder:
            config = trained_config(paths.path(workdir), settings)
        case "workdirs" if len({*folders}) == len(folders) > 1 and not file and not workdir:
            config = trained_config(folders[0], settings)
        case "foreign" if workdir and not file and len(folders) == 1:
            config = imported_config(folders[0], settings)
        case "configs" if not file and len(folders) == 1:
            own = tuple(f"--config.{key.partition('.')[0]}." for key in key_tables.mode_table(mode))
            others = tuple(x for x in settings if not x.startswith(own))
            settings = [x for x in settings if x.startswith(own)]
            config = ConfigDict({"arguments": others, "compilation_cache": "", "kernels": "plain"})
            workdir = workdir or f"runs/{folders[0].stem}"
        case _:
            raise UserError(
                f"expected --mode={mode} {MODES[mode].arguments}, found "
                f"{' '.join(arguments) or 'nothing'} (see --help)"
            )
    # The last place is the workdir: (FOLDER, WORKDIR), or several workdirs.
    places = (*folders, paths.path(workdir)) if workdir else tuple(folders)
    saved_config.check_workdir(places[-1])
    config = set_keys(config, settings, mode)
    if MODES[mode].tasks and config.task not in MODES[mode].tasks:
        available = [name for name, x in MODES.items() if config.task in (x.tasks or [config.task])]
        raise UserError(
            f"--mode={mode} is not available for the task {config.task!r}, which has the modes "
            f"{', '.join(available)}"
        )
    return mode, places if takes_folders else places[0], config


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns a trained workdir's config; UserError for an argument that its params depend on."""
    config = saved_config.read_with_defaults(workdir)
    values = key_tables.flatten(config)
    for argument in arguments:
        key = key_of(argument)
        if key in values and saved_config.affects_params(key):
            raise UserError(f"{argument}: {workdir} was trained with {values[key]!r}")
    return config


def resumed_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of a run that is resumed without its --config.

    UserError without a checkpoint, because a new run reads keys that are never taken from a
    workdir.
    """
    from transformer.checkpoints.manager import resumable  # imports JAX

    config = trained_config(workdir, arguments)
    if not resumable(workdir):
        raise UserError(f"{workdir} has no checkpoint to resume from: give --config=FILE")
    schedule = config.optimizer.schedule
    if schedule.get("decay_steps") == config.train.num_steps:
        # decay_steps follows num_steps, as in the configs, so that with more steps the learning
        # rate decays over all of them.
        schedule.decay_steps = config.train.get_oneway_ref("num_steps")
    return config


def imported_config(folder: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of the run that a folder was exported from, or the defaults."""
    if saved_config.is_exported(folder):
        return trained_config(folder, arguments)
    config = config_files.default_config()
    # Without WMT's text and languages; `import_model` fills in the model's languages.
    config.data.update(corpus="parallel_text", source_language="", target_language="")
    return config


def set_keys(config: ConfigDict, arguments: list[str], mode: str = "train") -> ConfigDict:
    """Returns the config with the mode's own keys and --config.KEY=VALUE set, and checked.

    UserError for an unknown key or a wrong value. Any key below optimizer.arguments and
    optimizer.schedule is accepted, because optimizer and schedule check their keys when built. A
    new optimizer or schedule drops the config's keys of the old.
    """
    key_tables.set_mode_keys(config, mode)
    for argument in arguments:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise UserError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                "--mode=MODE or --config.KEY=VALUE, each with its '='"
                f"{hint(key_of(argument), key_tables.flatten(config))}"
            )
    by_key = {key_of(argument): argument for argument in arguments}  # the last one counts
    # Keys on which other keys depend come first.
    for key in sorted(by_key, key=lambda key: key not in key_tables.CHOICES):
        set_key(config, key, by_key[key])
    key_tables.check(config, mode)
    # Locked, so that a mistyped key raises an error instead of being added.
    return config.lock()


def set_key(config: ConfigDict, key: str, argument: str) -> None:
    """Sets a key by a command-line argument, in the type of its current value."""
    values = key_tables.flatten(config)
    if key.endswith("fingerprint"):
        raise UserError(f"{argument}: config.{key} is a hash of what the run reads: it fills it in")
    if key not in values and not key.startswith(("optimizer.arguments.", "optimizer.schedule.")):
        for name in MODES:
            if key in key_tables.mode_table(name):
                raise UserError(f"{argument}: config.{key} is read by --mode={name} only")
        raise UserError(f"{argument}: there is no key config.{key}{hint(key, values)}")
    name = argument.partition("=")[2]
    if key in ("optimizer.name", "optimizer.schedule.name") and name != values.get(key):
        # Drop the keys of the old optimizer or schedule.
        config.update_from_flattened_dict({key_tables.CHOICES[key]: ConfigDict(), key: name})
    parsed = flags.FlagValues()
    try:
        # Keys of an optimizer and a schedule may be new.
        options = {"lock_config": False, "accept_new_attributes": True, "sys_argv": [argument]}
        config_flags.DEFINE_config_dict("config", config, flag_values=parsed, **options)
        parsed(["", argument])
    except (flags.Error, ValueError, KeyError, TypeError) as error:
        kind = key_tables.kind_of(values.get(key, 0.0))
        raise UserError(f"{argument}: config.{key} must be {kind}") from error


def key_of(argument: str) -> str:
    """Returns the config key that an argument sets: '--noconfig.data.pack' -> 'data.pack'."""
    name = argument.partition("=")[0]
    return name.removeprefix("--no").removeprefix("--").removeprefix("config.")


def hint(name: str, values: dict[str, object]) -> str:
    """Returns '; did you mean X?' for an unknown key, '' if no key is close."""
    code = registry.HELP.get("key", "transformer.errors:did_you_mean")
    return registry.load(code)(name, values)
