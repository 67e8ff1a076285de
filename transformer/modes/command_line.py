"""The command line: parses flags into mode, workdir and config, and explains each mistake in them.

launch.py has the three flags --config, --workdir and --mode; every key of a config is set by
--config.KEY=VALUE.
"""

import logging
import sys
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict

from transformer.errors import UserError, did_you_mean
from transformer.modes.overrides import did_you_mean_key, key_of, mode_keys, override
from transformer.registry import MODES
from transformer.runtime import paths
from transformer.workdir import config_files, run_config
from transformer.workdir.config_files import flatten


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
        # absl parses the three flags and leaves the keys of the config, which `override` parses.
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
    folders = [a for a in remaining if takes_folders and not a.startswith("-")]
    overrides = [a for a in remaining if a not in folders]
    for argument in overrides:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise UserError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                f"--mode=MODE or --config.KEY=VALUE, each with its '='{hint(argument, mode, file)}"
            )
    check_start(mode, file, workdir, folders)
    if file and not workdir:
        # configs/base.py:flickr trains in runs/base-flickr.
        name, _, variant = Path(file).name.partition(":")
        workdir = "runs/" + "-".join(filter(None, [name.removesuffix(".py"), variant]))
    if start == "configs" and not workdir:
        workdir = f"runs/{Path(folders[0]).stem}"
    # The workdir is the last of the places: (FOLDER, WORKDIR), or several workdirs.
    places = tuple(map(paths.path, filter(None, [*folders, workdir])))
    run_config.check_workdir(places[-1])
    if file:
        config = config_of_file(file, mode)
    elif mode == "train":
        config = resumed_config(places[0], overrides)
    elif start == "foreign":
        config = imported_config(places[0], overrides)
    elif start == "configs":
        own = tuple(f"{group}." for group in mode_keys(mode))
        arguments = tuple(x for x in overrides if not key_of(x).startswith(own))
        overrides = [x for x in overrides if x not in arguments]
        config = ConfigDict({"arguments": arguments, "compilation_cache": ""})
    else:
        config = trained_config(places[0] if start == "workdirs" else places[-1], overrides)
    config = override(config, overrides, mode)
    if MODES[mode].tasks and config.task not in MODES[mode].tasks:
        # Suggests the modes of this task alone, or where there are none, those of every task.
        of_task = [name for name, x in MODES.items() if config.task in x.tasks]
        available = of_task or [name for name, x in MODES.items() if not x.tasks]
        raise UserError(
            f"--mode={mode} is not available for the task {config.task!r}, which has "
            f"{', '.join(f'--mode={name}' for name in available)}"
        )
    return mode, places if takes_folders else places[0], config


def check_start(mode: str, file: str, workdir: str, folders: list[str]) -> None:
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
            f"{' '.join([*folders, *given]) or 'none of these'} (see --help)"
        )


def config_of_file(file: str, mode: str) -> ConfigDict:
    """Returns the config in a file; UserError unless it has all keys of its task, of their types.

    Keys that only the mode reads may be in it.
    """
    config, what = config_files.load_config(file), f"--config={file}"
    defaults = config_files.defaults_of(config, what)
    for keys in (defaults, mode_keys(mode)):
        config_files.check_types(config, keys, what)
    config_files.check_keys(config, defaults, what)
    return config


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns a trained workdir's config; UserError for an argument that its params depend on."""
    config = run_config.read_with_defaults(workdir)
    values = flatten(config)
    for argument in arguments:
        key = key_of(argument)
        if key in values and run_config.affects_params(key):
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
    given, values = [*map(key_of, arguments)], flatten(config)
    decay = "optimizer.schedule.decay_steps"
    if decay not in given and values.get(decay) == config.train.num_steps:
        # decay_steps follows num_steps, as in the configs: with more steps the learning rate decays
        # over all of them, and does not stay at its last value.
        config.optimizer.schedule.decay_steps = config.train.get_ref("num_steps")
    left = [
        f"{key}={saved!r}"
        for key, saved in flatten(run_config.read_config(workdir)).items()
        if key.startswith(run_config.MACHINE)
        and key not in given
        and saved != values.get(key, saved)
    ]
    if left:
        file = workdir / "config.json"
        logging.info("not taken from %s, as from no workdir's: %s", file, ", ".join(left))
    return config


def imported_config(folder: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of the run that a folder was exported from, else the defaults."""
    if run_config.is_exported(folder):
        return trained_config(folder, arguments)
    config = config_files.default_config()
    # Not WMT's text and languages: `import_model` fills in what the model names.
    config.data.update(corpus="parallel_text", source_language="", target_language="")
    return config


def hint(argument: str, mode: str, file: str) -> str:
    """Returns '; did you mean X?' for an unexpected argument; '' without a likely X."""
    if argument.startswith("-"):
        name = argument.lstrip("-").partition("=")[0]
        config = config_files.load_config(file) if file else config_files.default_config()
        keys = flatten(config) | flatten(mode_keys(mode))
        return did_you_mean_key(name, keys, ("config", "workdir", "mode"))
    guesses = {
        "--mode=": argument in MODES,
        "--workdir=": Path(argument).is_dir(),
        "--config=": argument.partition(":")[0].endswith(".py"),
        "< ": MODES[mode].reads_input,
    }
    flag = next((flag for flag, is_likely in guesses.items() if is_likely), "")
    return f"; did you mean {flag}{argument}?" if flag else ""
