r"""Train, evaluate and use the Transformer of "Attention Is All You Need".

  python launch.py --config=configs/quickstart.py [--workdir=DIR] [--config.KEY=VALUE ...]
      Trains, or goes on if DIR has a checkpoint, then scores the test set. DIR is runs/CONFIG by
      default; gs://BUCKET/FOLDER is a folder, too (docs/running.md).

  python launch.py --mode=evaluate --workdir=DIR [--config.evaluate.split=validation]
      Scores a trained workdir; the result is one JSON line on standard output.

  python launch.py --mode=translate --workdir=DIR < source.txt > target.txt
      Translates standard input, line by line.

  python launch.py --mode=score --workdir=DIR < pairs.tsv
      Forced decoding: the score of each SOURCE<tab>TARGET on standard input.

  python launch.py --mode=attention --workdir=DIR < pairs.tsv
      Word alignments of each SOURCE<tab>TARGET, and DIR/attention.npz with all attention weights.

  python launch.py --mode=verify --workdir=DIR
      Holds the files of all checkpoints against their checksums.

  python launch.py --mode=prepare --config=configs/wmt_base.py
      Builds corpus, vocabulary and ids, and trains nothing.

  python launch.py --mode=plan --config=configs/wmt_big.py --config.plan.num_devices=64 \
      --config.plan.device="TPU v5e"
      Memory, FLOPs, communication and time of such a run, from its compiled step: no corpus and no
      such devices are needed. One JSON line on standard output.

Any key of a config can be set: --config.model.d_model=256 --config.train.num_steps=1000. To see the
keys and their values: python launch.py --config=configs/quickstart.py --help. A config is Python
code, and is run.

Results go to standard output, all else to standard error. Exit status: 0 done; 2 a mistake in what
was typed; 143 training was stopped by SIGTERM, SIGUSR1 or Ctrl-C, after saving (the same command
goes on); 130 anything else was stopped by Ctrl-C; 1 all other ends.
"""

import difflib
import errno
import hashlib
import importlib
import importlib.util
import inspect
import logging
import os
import platform
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict, config_flags
from tqdm.contrib.logging import logging_redirect_tqdm

from transformer import storage

HERE = Path(__file__).resolve().parent

# Each mode's code is a function of the same name in a file of its own, imported when it is asked
# for. A mode starts from a --config or from the config.json of a trained --workdir.
FROM_CONFIG = ("train", "prepare", "plan")
FROM_WORKDIR = ("evaluate", "translate", "score", "attention", "verify")
MODES = FROM_CONFIG + FROM_WORKDIR
SHARED = ("train", "prepare", "evaluate")  # by all processes of a run

# What glibc's allocator is told: to keep the memory that it is given back, in huge pages if there
# are any. Otherwise the kernel clears the large arrays of each step anew.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# Keys that a trained workdir has settled.
TRAINED = ("--config.architecture", "--config.model.", "--config.vocabulary.")

flags.DEFINE_string("config", "", "The config file of a run.")
flags.DEFINE_string("mode", "train", f"What to do: {', '.join(MODES)}.")
flags.DEFINE_string("workdir", "", "The folder of a run; runs/CONFIG by default.")


def main(arguments: list[str]) -> None:
    """Runs the mode that the command line asks for."""
    asked = [a for a in arguments if a not in ("-h", "--help")]
    if asked != arguments:
        print(__doc__)
        if any(a.startswith(("--config", "--workdir")) for a in asked):
            print(f"The config of {' '.join(asked)}:\n\n{parse(asked)[2]}")
        return
    mode, workdir, config = parse(arguments)
    if mode in SHARED:
        join(config.parallel)
    module = importlib.import_module(f"transformer.{mode}")
    keep_compiled(config.compilation_cache)
    getattr(module, mode)(config, workdir)


def parse(arguments: list[str]) -> tuple[str, Path, ConfigDict]:
    """(mode, workdir, config) that the command line asks for; a ValueError says what is wrong."""
    try:
        rest = flags.FLAGS([sys.argv[0], *arguments], known_only=True)[1:]
    except flags.Error as error:
        raise ValueError(f"{error} (see --help)") from error
    file, mode, workdir = (flags.FLAGS[name].value for name in ("config", "mode", "workdir"))
    if mode not in MODES:
        raise ValueError(f"--mode is one of {', '.join(MODES)}, found {mode!r}{near(mode, MODES)}")
    for argument in rest:
        if not argument.startswith(("--config.", "--noconfig.")):
            raise ValueError(
                f"unexpected argument {argument!r}: expected --config=FILE, --workdir=DIR, "
                "--mode=MODE or --config.KEY=VALUE, each with its '='"
                f"{near(argument, ('--config', '--workdir', '--mode'))}"
            )
    if mode in FROM_CONFIG:
        if not file:
            raise ValueError(f"--mode={mode} needs --config=FILE, such as configs/quickstart.py")
        config = load_config(file)
        name, _, variant = Path(file).name.partition(":")
        workdir = workdir or "runs/" + "-".join(filter(None, [name.removesuffix(".py"), variant]))
    else:
        if file or not workdir:
            raise ValueError(
                f"--mode={mode} needs --workdir=DIR, the folder of a trained run, and takes the "
                "config from there; single keys can be set, as in --config.decode.beam_width=1"
            )
        for argument in rest:
            if argument.startswith(TRAINED) and not argument.startswith("--config.model.dtype"):
                raise ValueError(f"{argument}: the parameters in {workdir} fit no other value")
        from transformer.trained import read_config

        config = read_config(storage.path(workdir))
        asked = flatten(load_config(str(HERE / "configs" / "wmt_base.py")))
        for key in asked.keys() - flatten(config).keys():
            if key.startswith(("compilation_cache", "parallel.", "evaluate.", "decode.", mode)):
                raise ValueError(
                    f"{workdir}/config.json has no {key}: another version of this code made it"
                )
    folder = storage.path(workdir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--workdir={workdir} is a file, expected a folder")
    return mode, folder, override(config, rest)


def keep_memory() -> None:
    """Starts this program anew with ALLOCATOR, which is read at the start of a process only.

    Not where one of the variables is set already, nor without glibc, nor inside another program.
    """
    alone = sys.executable and sys.orig_argv[-len(sys.argv) :] == sys.argv
    if alone and platform.libc_ver()[0] == "glibc" and not ALLOCATOR.keys() & os.environ.keys():
        os.environ.update(ALLOCATOR)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def join(options: ConfigDict) -> None:
    """Makes this process one of the run's, if it has several; the first one speaks for all."""
    import jax

    from transformer import processes

    processes.connect(options.coordinator, options.num_processes, options.process_id)
    if jax.process_count() > 1:
        # On CPUs a library tells standard output, which is for results, of each connection.
        results = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.stdout = open(results, "w", encoding=sys.stdout.encoding)  # noqa: SIM115 (to the end)
    if not processes.is_first():
        logging.getLogger().setLevel(logging.WARNING)


def keep_compiled(folder: str) -> None:
    """Has JAX keep compiled programs in a folder, so that the next process finds them."""
    import jax

    if storage.in_bucket(folder):
        raise ValueError(f"config.compilation_cache is a local folder, found {folder!r}")
    if folder and not jax.config.jax_compilation_cache_dir:
        # JAX does not ask which CPU a program was compiled for, and homes are shared by machines.
        cpu = Path("/proc/cpuinfo")
        lines = cpu.read_text().splitlines() if cpu.exists() else []
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
        kind = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
        place = Path(folder).expanduser() / kind
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.warning("compiled programs are not kept: %s", error)
            return
        jax.config.update("jax_compilation_cache_dir", str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def load_config(file: str) -> ConfigDict:
    """The config that `FILE.py` or `FILE.py:VARIANT` returns."""
    name, _, variant = file.partition(":")
    path = Path(name)
    if not path.is_file():
        names = sorted(str(p.relative_to(HERE)) for p in HERE.glob("configs/[!_]*.py"))
        hint = near(str(path), names)
        raise ValueError(f"--config={path} does not exist{hint}; there are {', '.join(names)}")
    # Not by config_flags: it would bury what the config says of a wrong variant under tracebacks.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if variant and not inspect.signature(module.get_config).parameters:
        raise ValueError(f"--config={file}: {path} has no variants, found {variant!r}")
    return module.get_config(*filter(None, [variant]))


def override(config: ConfigDict, arguments: list[str]) -> ConfigDict:
    """Sets the keys that --config.KEY=VALUE arguments name."""
    types = flatten(config)
    for argument in arguments:
        name, has_value, _ = argument.partition("=")
        key = name.removeprefix("--no").removeprefix("--").removeprefix("config.")
        if key not in types:
            raise ValueError(
                f"{argument}: there is no key config.{key}{near(key, types, 'config.')}"
            )
        # --config.KEY and --noconfig.KEY are how absl spells True and False.
        complete = isinstance(types[key], bool) if not has_value else name.startswith("--config")
        if not complete:
            raise ValueError(f"{argument}: expected --config.{key}=VALUE, as in {types[key]!r}")
    values = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=arguments)
    try:
        values([sys.argv[0], *arguments])
    except flags.IllegalFlagValueError as error:
        wrong = next(a for a in arguments if a.partition("=")[0] in str(error))
        key = wrong.partition("=")[0].removeprefix("--config.")
        raise ValueError(
            f"{wrong}: config.{key} is of type {type(types[key]).__name__}, as in {types[key]!r}"
        ) from error
    return values.config


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """{'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def near(found: str, right: Iterable[str], prefix: str = "") -> str:
    """A hint at the right name that is most like the one found, if one is."""
    nearest = difflib.get_close_matches(found, list(right), 1)
    return f"; did you mean {prefix}{nearest[0]}?" if nearest else ""


def leave(status: int) -> None:
    """Ends a process that failed; not by JAX's way out, where it would wait for the run's others,
    and they for it."""
    jax = sys.modules.get("jax")
    if jax and jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


# What a path is said to be by the system where it cannot be used.
UNUSABLE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
)


def mistake(error: Exception) -> str:
    """The line for a user who is to mend it: of a path that cannot be used, or of a ValueError by a
    `raise` of ours. "" if it is a fault of ours, such as a ValueError of a library's, or of int().
    """
    if isinstance(error, OSError) and error.filename and error.errno in UNUSABLE:
        return f"{error.filename}: {error.strerror}"
    if not isinstance(error, ValueError):
        return ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(last.filename).resolve()
    ours = file.is_relative_to(HERE) and "site-packages" not in file.parts
    return str(error) if ours and last.line.startswith("raise") else ""


if __name__ == "__main__":
    keep_memory()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for library in ("absl", "fsspec", "gcsfs", "jax", "orbax"):
        logging.getLogger(library).setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what Orbax gives up reading
    try:
        with logging_redirect_tqdm():  # so that a line does not run into a progress bar
            main(sys.argv[1:])
    except KeyboardInterrupt:
        leave(130)
    except BrokenPipeError:  # whoever read the results wants no more, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        leave(1)
    except Exception as error:
        line = mistake(error)
        if not line:
            traceback.print_exc()
            leave(1)
        print(f"launch.py: {line}", file=sys.stderr)
        leave(2)
