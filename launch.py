r"""Train, evaluate and use the Transformer of "Attention Is All You Need".

  python launch.py --config=configs/quickstart.py [--workdir=DIR] [--config.KEY=VALUE ...]
      Trains, or goes on if DIR has a checkpoint, then scores the test set. DIR is runs/CONFIG by
      default; gs://BUCKET/FOLDER is a folder, too (docs/running.md).

  python launch.py --mode=evaluate --workdir=DIR [--config.evaluate.split=validation]
      Scores a trained workdir; the result is one JSON line on standard output (a table, if that is
      a terminal) and in DIR/evaluations.jsonl.

  python launch.py --mode=translate --workdir=DIR < source.txt > target.txt
      Translates standard input, line by line.

  python launch.py --mode=score --workdir=DIR < pairs.tsv
      Forced decoding: the score of each SOURCE<tab>TARGET on standard input.

  python launch.py --mode=align --workdir=DIR < pairs.tsv
      Word alignments of each SOURCE<tab>TARGET, and DIR/attention.npz with all attention weights.

  python launch.py --mode=verify --workdir=DIR
      Compares the files of all checkpoints with their checksums.

  python launch.py --mode=prepare --config=configs/wmt_base.py
      Builds corpus, vocabulary and ids, and trains nothing.

  python launch.py --mode=plan --config=configs/wmt_big.py --config.plan.num_devices=64 \
      --config.plan.device="TPU v5e"
      Memory, FLOPs, communication and time of such a run, from its compiled step: no corpus and no
      such devices are needed. One JSON line on standard output.

Any key of a config can be set: --config.model.d_model=256 --config.train.num_steps=1000. To see the
keys and their values: python launch.py --config=configs/quickstart.py --help. A config is Python
code, and is run.

A mode that starts from a workdir takes the config from there, but for what belongs to a machine
(compilation_cache, data.data_dir, parallel, evaluate.ensemble): that has its default, or is set.

Results go to standard output, all else to standard error. Exit status: 0 done; 2 what the user can
mend, said in one line; 143 training was stopped by SIGTERM, SIGHUP, SIGUSR1 or Ctrl-C,
after saving (the same command goes on); 130 anything else was stopped by Ctrl-C; 1 all other ends.
"""

import os
import signal
import sys


def end_at_once(*_: object) -> None:
    """Ends the process as Ctrl-C does."""
    os._exit(130)


# The other imports, and those of a mode, take seconds in which there is nothing to clean up. A
# signal that is ignored from the start stays ignored.
if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which keep_memory blocks

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

# A mode's function is imported when it is asked for. A mode starts from a --config or from the
# config.json of a trained --workdir.
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
WRITTEN = ("lock", "metrics.jsonl", "evaluation", "evaluations.jsonl")  # not by rename
READS_INPUT = ("translate", "score", "align")
SHARED = ("train", "prepare", "evaluate")  # by all processes of a run

# What glibc's allocator is told: to keep the memory that it is given back, in huge pages if there
# are any. Otherwise the kernel clears the large arrays of each step anew.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def main(arguments: list[str]) -> None:
    """Runs the mode that the command line asks for."""
    if sys.stdout is None:
        raise UserError("standard output is closed: results go there; give it a file or /dev/null")
    asked = [a for a in arguments if a not in ("-h", "--help")]
    if asked != arguments:
        print(__doc__)
        if any(a.startswith(("--config", "--workdir")) for a in asked):
            print(f"The config of {' '.join(asked)}:\n\n{parse(asked)[2]}")
        return
    mode, workdir, config = parse(arguments)
    if mode in READS_INPUT and sys.stdin is None:
        raise UserError(f"standard input is closed: --mode={mode} reads it, as in < source.txt")
    if mode in SHARED:
        join(config.parallel)
    module, _, function = MODES[mode].partition(":")
    run_mode = getattr(importlib.import_module(module), function)
    keep_compiled(config.compilation_cache)
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_mode(config, workdir)


def parse(arguments: list[str]) -> tuple[str, Path, ConfigDict]:
    """(mode, workdir, config) that the command line asks for; a UserError says what is wrong."""
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
                f"--mode=MODE or --config.KEY=VALUE, each with its '='{meant(argument, mode)}"
            )
    if mode in FROM_CONFIG and not file:
        raise UserError(f"--mode={mode} needs --config=FILE, such as configs/quickstart.py")
    if mode in FROM_WORKDIR and file:
        raise UserError(
            f"--mode={mode} takes no --config=FILE, but the config.json of its --workdir=DIR; "
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
    if mode in OF_TASKS and mode not in (modes := task_modes(config.task)):
        raise UserError(
            f"--mode={mode} is not one of the task {config.task!r}, which has "
            f"{', '.join([*(m for m in MODES if m not in OF_TASKS), *modes])}"
        )
    return mode, folder, override(config, rest)


def task_of(config: ConfigDict, what: str) -> str:
    """A config's task; where it names none, the one whose keys it is checked against."""
    if (task := config.get("task", "translation")) not in TASKS:
        raise UserError(
            f"{what}: config.task is one of {', '.join(TASKS)}, found {task!r} (an own config "
            "begins with one of those in configs/, as in config = translation.get_config())"
        )
    return task


def task_modes(task: str) -> tuple[str, ...]:
    """The modes that a task has besides those of every task."""
    return importlib.import_module(TASKS[task]).MODES


def meant(argument: str, mode: str) -> str:
    """A hint at what an argument that is none may stand for."""
    if argument.startswith("-"):
        name = argument.lstrip("-").partition("=")[0]
        return near_key(name, flatten(default_config()), ("config", "workdir", "mode"))
    flag = "--config=" if argument.partition(":")[0].endswith(".py") else ""
    flag = "--workdir=" if Path(argument).is_dir() else flag
    flag = "--mode=" if argument in MODES else flag
    flag = flag or "< " * (mode in READS_INPUT)
    return f"; did you mean {flag}{argument}?" if flag else ""


def trained_config(workdir: Path, arguments: list[str]) -> ConfigDict:
    """The config of a trained workdir, in which the arguments may set what they name."""
    from transformer.checkpoints.workdir import read_config

    for argument in arguments:
        key = argument.partition("=")[0].removeprefix("--no").removeprefix("--")
        key = key.removeprefix("config.")
        if is_of_parameters(key):
            raise UserError(f"{argument}: the parameters in {workdir} fit no other value")
    made, file = read_config(workdir), workdir / "config.json"
    return with_defaults(made, default_config(task_of(made, str(file))), file)


def keep_memory() -> None:
    """Starts this program anew with ALLOCATOR, which is read at the start of a process only.

    Not where one of the variables is set already, nor without glibc, nor inside another program.
    """
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until it can be heeded again
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def join(options: ConfigDict) -> None:
    """Makes this process one of the run's, if it has several; the first one speaks for all."""
    import jax

    from transformer.distributed import processes

    processes.connect(options.coordinator, options.num_processes, options.process_id)
    if jax.process_count() > 1:
        # On CPUs a library tells standard output, which is for results, of each connection.
        results = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.stdout = streams.open_output(results)
    if not processes.is_first():
        logging.getLogger().setLevel(logging.WARNING)


def keep_compiled(folder: str) -> None:
    """Has JAX keep compiled programs in a folder, so that the next process finds them."""
    import jax

    if paths.in_bucket(folder):
        raise UserError(f"config.compilation_cache is a local folder, found {folder!r}")
    if folder and not jax.config.jax_compilation_cache_dir:
        # JAX does not ask which CPU a program was compiled for, and homes are shared by machines.
        cpu = Path("/proc/cpuinfo")
        text = cpu.read_text().splitlines() if cpu.exists() else []
        features = next((line for line in text if line.startswith(("flags", "Features"))), "")
        kind = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
        place = Path(folder).expanduser() / kind
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.warning("compiled programs are not kept: %s", error)
            return
        jax.config.update("jax_compilation_cache_dir", str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def leave(status: int) -> None:
    """Ends a process that failed, at once. JAX's way out waits for the run's other processes, and
    they for it; Python's waits five minutes for Orbax's threads where a save failed by half."""
    streams.finish_output()
    if "jax" in sys.modules:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


# What a path is said to be by the system where it cannot be used.
UNUSABLE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
)


def mistake(error: Exception) -> str:
    """The line for a user who is to mend it: a UserError's, or that of a path that cannot be used.
    "" if it is a fault of ours."""
    unusable = isinstance(error, OSError) and error.filename and error.errno in UNUSABLE
    if unusable or getattr(error, "filename", "") == streams.OUTPUT:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, UserError) else ""


def is_alone() -> bool:
    """Whether JAX is loaded, and this is the only process of a run."""
    jax = sys.modules.get("jax")
    return bool(jax) and not jax.distributed.is_initialized()


def run(arguments: list[str]) -> None:
    """Runs main; a failure ends the process with its line or traceback, and its exit status."""
    try:
        with logging_redirect_tqdm():  # so that a line does not run into a progress bar
            main(arguments)
        sys.stdout.flush()
        if is_alone():  # else JAX ends the processes together
            leave(0)
    except KeyboardInterrupt:
        leave(130)
    except SystemExit as error:  # stopped after saving, say
        if not is_alone():
            raise
        leave(error.code)
    except Exception as error:
        line = mistake(error)
        if isinstance(error, BrokenPipeError):  # the reader wants no more, as in `... | head`
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
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what Orbax gives up reading
    run(sys.argv[1:])
