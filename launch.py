r"""Train, evaluate and use the Transformer of "Attention Is All You Need".

  python launch.py --config=configs/quickstart.py [--workdir=DIR] [--config.KEY=VALUE ...]
      Trains, or resumes if DIR has a checkpoint, then scores the test set. DIR is runs/CONFIG by
      default, and may be gs://BUCKET/FOLDER (docs/running.md).

  python launch.py --mode=evaluate --workdir=DIR [--config.evaluate.split=validation]
      Scores a trained workdir. The result is one JSON line on standard output (a table on a
      terminal) and in DIR/evaluations.jsonl.

  python launch.py --mode=translate --workdir=DIR < source.txt > target.txt
      Translates standard input, line by line.

  python launch.py --mode=score --workdir=DIR < pairs.tsv
      Scores each SOURCE<tab>TARGET on standard input by forced decoding.

  python launch.py --mode=align --workdir=DIR < pairs.tsv
      Aligns the words of each SOURCE<tab>TARGET on standard input, and writes the attention
      weights to DIR/attention.npz.

  python launch.py --mode=verify --workdir=DIR
      Compares the files of all checkpoints with their checksums.

  python launch.py --mode=prepare --config=configs/wmt_base.py
      Builds corpus, vocabulary and token ids, without training.

  python launch.py --mode=plan --config=configs/wmt_big.py --config.plan.num_devices=64 \
      --config.plan.device="TPU v5e"
      Estimates memory, FLOPs, communication and time of a run from its compiled step, without the
      corpus and the devices. Prints one JSON line on standard output.

Any key of a config can be set: --config.model.d_model=256 --config.train.num_steps=1000. To see the
keys and their values: python launch.py --config=configs/quickstart.py --help. A config is Python
code that is executed: only use configs that you trust.

A mode that needs a trained workdir takes the config from there, except the keys that belong to a
machine (compilation_cache, data.data_dir, parallel, evaluate.ensemble, vocabulary.model): these
have their defaults unless set on the command line.

Results go to standard output, everything else to standard error. Exit status: 0 done; 2 a mistake
of the user, explained in one line; 143 training was signalled to stop (SIGTERM, SIGHUP, SIGUSR1,
Ctrl-C) and has saved a checkpoint, so that the same command resumes it; 130 any other mode was
interrupted by Ctrl-C; 1 any other failure.
"""

import os
import signal
import sys


def end_at_once(*_: object) -> None:
    """Handles Ctrl-C during start-up: ends the process with status 130, without a traceback."""
    os._exit(130)


# The imports below, and those of a mode, take seconds in which there is nothing to clean up. If
# Ctrl-C is ignored at start (a background job), it stays ignored.
if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by keep_memory

import errno
import hashlib
import importlib
import logging
import platform
import traceback
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict
from tqdm.contrib.logging import logging_redirect_tqdm

from transformer.checkpoints.config_files import (
    check_keys,
    check_types,
    default_config,
    flatten,
    is_of_parameters,
    load_config,
    near,
    near_key,
    override,
    with_defaults,
)
from transformer.errors import UserError
from transformer.storage import paths, streams
from transformer.tasks import TASKS

# {mode: "module:function"}, imported on use. A mode starts from a --config, or from the config.json
# of a trained --workdir.
FROM_CONFIG = {
    "train": "transformer.modes.train:train",
    "prepare": "transformer.modes.prepare:prepare",
    "plan": "transformer.modes.plan:plan",
}
FROM_WORKDIR = {
    "evaluate": "transformer.modes.evaluate:evaluate",
    "translate": "transformer.modes.translate:translate",
    "score": "transformer.modes.score:score",
    "align": "transformer.modes.align:align",
    "verify": "transformer.modes.verify:verify",
}
MODES = FROM_CONFIG | FROM_WORKDIR
OF_TASKS = ("translate", "score", "align")  # modes that only some tasks have
# What a workdir has that is not written by rename: it must not be a link that leads outside.
WRITTEN = ("lock", "metrics.jsonl", "evaluation", "evaluations.jsonl")
READS_INPUT = ("translate", "score", "align")
SHARED = ("train", "prepare", "evaluate")  # modes that run on all processes of a run

# Settings of glibc's allocator: keep freed memory, in huge pages where available. By default each
# step would return its large arrays to the kernel, which clears them again: a small step takes 1.35
# times as long.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def main(arguments: list[str]) -> None:
    """Runs the mode given on the command line, or prints the help."""
    if sys.stdout is None:
        raise UserError(
            "standard output is closed, but results go there; redirect it to a file or /dev/null"
        )
    without_help = [a for a in arguments if a not in ("-h", "--help")]
    if without_help != arguments:
        print(__doc__)
        if any(a.startswith(("--config", "--workdir")) for a in without_help):
            print(f"The config of {' '.join(without_help)}:\n\n{parse(without_help)[2]}")
        return
    mode, workdir, config = parse(arguments)
    if mode in READS_INPUT and sys.stdin is None:
        raise UserError(f"standard input is closed, but --mode={mode} reads it, as in < source.txt")
    if mode in SHARED:
        connect(config.parallel)
    module, _, function = MODES[mode].partition(":")
    run_mode = getattr(importlib.import_module(module), function)
    keep_compiled(config.compilation_cache)
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_mode(config, workdir)


def parse(arguments: list[str]) -> tuple[str, Path, ConfigDict]:
    """Parses the command line into (mode, workdir, config); UserError for a mistake in it."""
    values = flags.FlagValues()
    for name, default in (("config", ""), ("mode", "train"), ("workdir", "")):
        flags.DEFINE_string(name, default, "", flag_values=values)
    try:
        rest = values([sys.argv[0], *arguments], known_only=True)[1:]
    except flags.Error as error:
        raise UserError(f"{error} (see --help)") from error
    file, mode, workdir = values.config, values.mode, values.workdir
    if mode not in MODES:
        raise UserError(f"--mode is one of {', '.join(MODES)}, found {mode!r}{near(mode, MODES)}")
    for argument in rest:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise UserError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                f"--mode=MODE or --config.KEY=VALUE, each with its '='{hint(argument, mode)}"
            )
    if mode in FROM_CONFIG and not file:
        raise UserError(f"--mode={mode} needs --config=FILE, such as configs/quickstart.py")
    if mode in FROM_WORKDIR and file:
        raise UserError(
            f"--mode={mode} takes no --config=FILE: it reads the config.json of its --workdir=DIR; "
            "single keys can be set, as in --config.decode.beam_width=1"
        )
    if mode in FROM_WORKDIR and not workdir:
        raise UserError(f"--mode={mode} needs --workdir=DIR, the folder of a trained run")
    if mode in FROM_CONFIG:
        config = load_config(file)
        defaults = default_config(task_of(config, f"--config={file}"))
        check_types(config, defaults, f"--config={file}")
        check_keys(config, defaults, f"--config={file}")
        name, _, variant = Path(file).name.partition(":")
        workdir = workdir or "runs/" + "-".join(filter(None, [name.removesuffix(".py"), variant]))
    folder = paths.path(workdir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--workdir={workdir} is a file, expected a folder")
    if not paths.in_bucket(folder):
        paths.check_links(folder, WRITTEN)
    if mode in FROM_WORKDIR:
        config = trained_config(folder, rest)
    config = override(config, rest)
    if mode in OF_TASKS and mode not in (modes := task_modes(config.task)):
        raise UserError(
            f"--mode={mode} is not available for the task {config.task!r}, which has "
            f"{', '.join([*(m for m in MODES if m not in OF_TASKS), *modes])}"
        )
    return mode, folder, config


def task_of(config: ConfigDict, what: str) -> str:
    """Returns config.task, or 'translation' without one; UserError for an unknown task.

    `what` names the config's source in the message.
    """
    if (task := config.get("task", "translation")) not in TASKS:
        raise UserError(
            f"{what}: config.task is one of {', '.join(TASKS)}, found {task!r} (start your config "
            "from one of those in configs/, as in config = translation.get_config())"
        )
    return task


def task_modes(task: str) -> tuple[str, ...]:
    """Returns the modes that a task has besides those of every task."""
    from transformer.tasks.task import load_task

    return load_task(task).MODES


def hint(argument: str, mode: str) -> str:
    """Returns '; did you mean X?' for an unexpected argument, '' if nothing is close to it."""
    if argument.startswith("-"):
        name = argument.lstrip("-").partition("=")[0]
        return near_key(name, flatten(default_config()), ("config", "workdir", "mode"))
    if argument in MODES:
        flag = "--mode="
    elif Path(argument).is_dir():
        flag = "--workdir="
    elif argument.partition(":")[0].endswith(".py"):
        flag = "--config="
    elif mode in READS_INPUT:
        flag = "< "
    else:
        return ""
    return f"; did you mean {flag}{argument}?"


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """Returns the config of a trained workdir; UserError if arguments set a key of its params."""
    from transformer.checkpoints.workdir import read_config

    for argument in arguments:
        key = argument.partition("=")[0].removeprefix("--no").removeprefix("--")
        key = key.removeprefix("config.")
        if is_of_parameters(key):
            raise UserError(
                f"{argument}: the checkpoints in {workdir} were trained with the saved value"
            )
    saved_config, file = read_config(workdir), workdir / "config.json"
    return with_defaults(saved_config, default_config(task_of(saved_config, str(file))), file)


def keep_memory() -> None:
    """Restarts this program with ALLOCATOR in its environment, which glibc reads at start only.

    Does nothing if one of the variables is set already, without glibc, or if another program, such
    as a notebook, has imported this one.
    """
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until end_at_once is installed
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def connect(options: ConfigDict) -> None:
    """Connects the processes of a run, if it has several; only process 0 logs below warnings."""
    import jax

    from transformer.distributed import processes

    processes.connect(options.coordinator, options.num_processes, options.process_id)
    if jax.process_count() > 1:
        # On CPUs, Gloo prints each connection to standard output, which is for results: send that
        # descriptor to standard error, and results to a copy of the old one.
        results = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.stdout = streams.open_output(results)
    if not processes.is_first():
        logging.getLogger().setLevel(logging.WARNING)


def keep_compiled(folder: str) -> None:
    """Sets JAX's persistent compilation cache to a subfolder of `folder`; "" leaves it off.

    A cache that is set already, as by JAX_COMPILATION_CACHE_DIR, stays.
    """
    import jax

    if paths.in_bucket(folder):
        raise UserError(f"config.compilation_cache is a local folder, found {folder!r}")
    if folder and not jax.config.jax_compilation_cache_dir:
        # JAX does not check which CPU a program was compiled for, and machines may share a home. So
        # each kind of CPU has its own subfolder.
        cpu = Path("/proc/cpuinfo")
        text = cpu.read_text().splitlines() if cpu.exists() else []
        features = next((line for line in text if line.startswith(("flags", "Features"))), "")
        kind = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
        cache = Path(folder).expanduser() / kind
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.warning("compiled programs are not cached: %s", error)
            return
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def leave(status: int) -> None:
    """Ends the process at once, without waiting for threads or other processes.

    JAX's exit handler waits for the other processes, and they for this one; Python's waits five
    minutes for Orbax's threads if a save failed.
    """
    streams.finish_output()
    if "jax" in sys.modules:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


# The errors of a path that cannot be used.
UNUSABLE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
)


def mistake(error: Exception) -> str:
    """Returns the one line that explains a user's mistake, "" if the error is a bug.

    Mistakes are a UserError, a path that cannot be used, and a full or closed standard output.
    """
    unusable = isinstance(error, OSError) and error.filename and error.errno in UNUSABLE
    if unusable or getattr(error, "filename", "") == streams.OUTPUT:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, UserError) else ""


def is_alone() -> bool:
    """Returns whether JAX is loaded and this is the only process of the run."""
    jax = sys.modules.get("jax")
    return bool(jax) and not jax.distributed.is_initialized()


def run(arguments: list[str]) -> None:
    """Runs main, and turns its failures into one line or a traceback, and an exit status."""
    try:
        with logging_redirect_tqdm():  # so that log lines do not break progress bars
            main(arguments)
        sys.stdout.flush()
        if is_alone():  # otherwise JAX's exit handler ends the processes together
            leave(0)
    except KeyboardInterrupt:
        leave(130)
    except SystemExit as error:  # such as 143, signalled to stop
        if not is_alone():
            raise
        leave(error.code)
    except Exception as error:
        line = mistake(error)
        if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as in `... | head`
            leave(1)
        if not line:
            traceback.print_exc()
            leave(1)
        print(f"launch.py: {line}", file=sys.stderr)
        leave(2)


if __name__ == "__main__":
    keep_memory()
    streams.prepare()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for library in ("absl", "fsspec", "gcsfs", "jax", "orbax"):
        logging.getLogger(library).setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # reads that Orbax cancels
    run(sys.argv[1:])
