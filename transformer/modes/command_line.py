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
from transformer.modes.near_names import did_you_mean_key
from transformer.modes.overrides import key_of, mode_keys, override
from transformer.registry import MODES, TASKS
from transformer.runtime import paths
from transformer.workdir.config_files import (
    check_keys,
    check_types,
    default_config,
    flatten,
    load_config,
)
from transformer.workdir.run_config import (
    MACHINE,
    check_links,
    exported_run,
    is_of_parameters,
    read_config,
    with_defaults,
)


def modes_help() -> str:
    """Returns the lines of --help about modes, two for each mode."""
    lines = (
        f"  --mode={name} {mode.arguments}\n      {mode.about}" for name, mode in MODES.items()
    )
    return "\n".join(lines)


def parse(arguments: list[str]) -> tuple[str, Path | tuple[Path, ...], ConfigDict]:
    """Parses the command line into (mode, workdir, config); UserError for a mistake in it.

    For a mode that starts from several workdirs, these are a tuple of all, with the config of the
    first. For a mode that takes a folder, workdir is (folder, workdir).
    """
    values = flags.FlagValues()
    for name, default in (("config", ""), ("mode", "train"), ("workdir", "")):
        flags.DEFINE_string(name, default, "", flag_values=values)
    try:
        rest = values([sys.argv[0], *arguments], known_only=True)[1:]
    except flags.Error as error:
        raise UserError(f"{error} (see --help)") from error
    file, mode, workdir = values.config, values.mode, values.workdir
    if mode not in MODES:
        raise UserError(
            f"--mode must be one of {', '.join(MODES)}, found {mode!r}{did_you_mean(mode, MODES)}"
        )
    start, takes_folder = MODES[mode].start, MODES[mode].folder
    if values["workdir"].present and not workdir and start != "workdirs":
        raise UserError("--workdir= is empty, expected --workdir=DIR (an unset shell variable?)")
    # Folders are positional; all that begins with a dash is a flag, or sets a key.
    takes_folders = start == "workdirs" or takes_folder
    folders = [a for a in rest if takes_folders and not a.startswith("-")]
    rest = [a for a in rest if a not in folders]
    if takes_folder and len(folders) != 1:
        found = " ".join(folders) or "none"
        raise UserError(f"expected --mode={mode} FOLDER --workdir=DIR, found the folders {found}")
    for argument in rest:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise UserError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                f"--mode=MODE or --config.KEY=VALUE, each with its '='{hint(argument, mode, file)}"
            )
    # What each kind of start needs, and what it does not take.
    if start == "config" and not file and not (mode == "train" and workdir):
        resumed = ", or --workdir=DIR of a run to resume" if mode == "train" else ""
        raise UserError(
            f"--mode={mode} needs --config=FILE, such as configs/quickstart.py{resumed}"
        )
    if start == "workdir" and file:
        raise UserError(
            f"--mode={mode} takes no --config=FILE: it reads the config.json of its --workdir=DIR; "
            "single keys can be set, as in --config.decode.beam_width=1"
        )
    if start == "workdirs":
        places = workdirs_of(mode, folders, {"--config": file, "--workdir": workdir})
        return mode, places, override(trained_config(places[0], rest), rest, mode)
    if start == "workdir" and not workdir:
        raise UserError(f"--mode={mode} needs --workdir=DIR, the folder of a trained run")
    if start == "foreign" and (file or not workdir):
        raise UserError(f"expected --mode={mode} FOLDER --workdir=DIR, without --config=FILE")
    if start == "config" and file:
        config = load_config(file)
        defaults = default_config(task_of(config, f"--config={file}"))
        for keys in (defaults, mode_keys(mode)):
            check_types(config, keys, f"--config={file}")
        check_keys(config, defaults, f"--config={file}")
        name, _, variant = Path(file).name.partition(":")
        workdir = workdir or "runs/" + "-".join(filter(None, [name.removesuffix(".py"), variant]))
    folder = paths.path(workdir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--workdir={workdir} is a file, expected a folder")
    check_links(folder)
    if start == "workdir":
        config = trained_config(folder, rest)
    if mode == "train" and not file:
        config = resumed_config(folder, rest)
    if start == "foreign" and (run := exported_run(paths.path(folders[0]))):
        config = trained_config(run, rest)
    elif start == "foreign":
        config = default_config("translation")
        # Not WMT's text and languages: `import_model` fills in what the model names.
        config.data.update(corpus="parallel_text", source_language="", target_language="")
    config = override(config, rest, mode)
    if MODES[mode].tasks and config.task not in MODES[mode].tasks:
        own = [name for name, x in MODES.items() if config.task in x.tasks]
        others = own or [name for name, x in MODES.items() if not x.tasks]
        raise UserError(
            f"--mode={mode} is not available for the task {config.task!r}, which has "
            f"{', '.join(f'--mode={name}' for name in others)}"
        )
    if takes_folder:
        return mode, (paths.path(folders[0]), folder), config
    return mode, folder, config


def workdirs_of(mode: str, folders: list[str], given: dict[str, str]) -> tuple[Path, ...]:
    """Returns the workdirs of a mode that reads several; `given` are the values of other flags.

    UserError for fewer than two workdirs, for one that is given twice, and for other flags.
    """
    expected = f"expected --mode={mode} DIR DIR ..., the folders of two or more trained runs"
    for flag, value in given.items():
        if value:
            raise UserError(f"--mode={mode} takes no {flag}={value}: {expected}")
    places = tuple(map(paths.path, folders))
    for place in places:
        if places.count(place) > 1:
            raise UserError(f"{place} is given twice: {expected}")
    if len(places) < 2:
        raise UserError(f"{expected}, found {' '.join(folders) or 'none'}")
    return places


def task_of(config: ConfigDict, what: str) -> str:
    """Returns config.task, or 'translation' without one; UserError for an unknown task.

    `what` names the config's source in the message.
    """
    if (task := config.get("task", "translation")) not in TASKS:
        raise UserError(
            f"{what}: config.task must be one of {', '.join(TASKS)}, found {task!r} (start your "
            "config from one of those in configs/, as in config = translation.get_config())"
        )
    return task


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of a trained workdir; UserError if arguments set a key of its params."""
    saved_config, file = read_config(workdir), workdir / "config.json"
    config = with_defaults(saved_config, default_config(task_of(saved_config, str(file))), file)
    for key, argument in zip(map(key_of, arguments), arguments, strict=True):
        if is_of_parameters(key):
            saved = flatten(saved_config)
            value = repr(saved[key]) if key in saved else "the saved value"
            raise UserError(f"{argument}: the checkpoints in {workdir} were trained with {value}")
    return config


def resumed_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of a run that is resumed without its --config.

    UserError if there is no checkpoint to resume from: a new run reads keys that are never taken
    from a workdir. Keys of that kind whose value in config.json is another are logged.
    """
    from transformer.checkpoints.resuming import resumable  # imports JAX

    config, file = trained_config(workdir, arguments), workdir / "config.json"
    if not resumable(workdir):
        raise UserError(f"{workdir} has no checkpoint to resume from: give --config=FILE")
    given, decay = list(map(key_of, arguments)), "optimizer.schedule.decay_steps"
    if decay not in given and flatten(config).get(decay) == config.train.num_steps:
        # As in the configs: a run of more steps does not go on at the rate of the last one.
        config.optimizer.schedule.decay_steps = config.train.get_ref("num_steps")
    ours = flatten(config)
    # Keys of the machine that config.json has otherwise, and the command line does not set.
    left = [
        f"{key}={value!r}"
        for key, value in flatten(read_config(workdir)).items()
        if key.startswith(MACHINE) and key not in given and value != ours.get(key, value)
    ]
    if left:
        logging.info("not taken from %s, as from no workdir's: %s", file, ", ".join(left))
    return config


def hint(argument: str, mode: str, file: str) -> str:
    """Returns '; did you mean X?' for an unexpected argument, '' if nothing is close to it."""
    if argument.startswith("-"):
        name = argument.lstrip("-").partition("=")[0]
        config = load_config(file) if file else default_config()
        keys = flatten(config) | flatten(mode_keys(mode))
        return did_you_mean_key(name, keys, ("config", "workdir", "mode"))
    if argument in MODES:
        flag = "--mode="
    elif Path(argument).is_dir():
        flag = "--workdir="
    elif argument.partition(":")[0].endswith(".py"):
        flag = "--config="
    elif MODES[mode].reads_input:
        flag = "< "
    else:
        return ""
    return f"; did you mean {flag}{argument}?"
