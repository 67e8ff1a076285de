r"""Train, evaluate and use the Transformer of "Attention Is All You Need".

  python launch.py --config=configs/parallel_text.py  trains, or resumes, and scores the test set
  python launch.py --mode=translate --workdir=runs/parallel_text < source.txt > target.txt

Modes (registry.py). DIR is runs/CONFIG by default; it may be gs://BUCKET/FOLDER (docs/running.md).

MODES

Any config key can be set: --config.model.d_model=256 --config.train.num_steps=1000. To list keys
and values: python launch.py --config=configs/parallel_text.py --help. Comments in configs/TASK.py
(such as translation.py), and in the files _*.py that it imports, explain each key. Some modes have
their own keys; python launch.py --mode=align --workdir=DIR --help lists them, too. A config is
Python code that is executed, so use only configs that you trust.

A mode that starts from a trained workdir reads its config. Only the keys that belong to a machine
(compilation_cache, data.data_dir, parallel, evaluate.ensemble, train.init_from, vocabulary.model,
decode.terms, decode.forbidden, decode.language_model) and the mode's own keys have their defaults,
unless set on the command line.

Results go to standard output, everything else to standard error. Exit status: 0 done; 2 a user's
mistake or a failing disk, explained in one line; 143 training or a sweep was signalled to stop
(SIGTERM, SIGHUP, SIGUSR1, Ctrl-C) and has saved a checkpoint, and the same command resumes; 130
Ctrl-C before the first training step, or in another mode (serve exits with 0); 1 any other failure.
"""

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a mode runs, Ctrl-C kills the process. Inside an import, a KeyboardInterrupt could be
    # swallowed or turned into another exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import contextlib
import gc
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from transformer import registry
from transformer.errors import one_line
from transformer.runtime import startup

if TYPE_CHECKING:
    from ml_collections import ConfigDict


def main(arguments: list[str]) -> None:
    """Runs the mode given on the command line, or prints the help."""
    # Imports inside functions, because JAX takes 0.4 s: a mistyped command fails at once.
    from transformer.modes.command_line import parse

    if "-h" in arguments or "--help" in arguments:
        print_help([a for a in arguments if a not in ("-h", "--help")])
        return
    mode, workdir, config = parse(arguments)
    set_up_jax(config, registry.MODES[mode].collective)
    run_mode = registry.load(registry.MODES[mode].code)
    startup.freeze_imports()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    from tqdm.contrib.logging import logging_redirect_tqdm

    with logging_redirect_tqdm():  # so that log lines do not break progress bars
        run_mode(config, workdir)


def print_help(arguments: list[str]) -> None:
    """Prints the modes, and the keys of the config that the other arguments name."""
    from transformer.modes.command_line import modes_help, parse

    print(__doc__.replace("MODES", modes_help()))
    if any(not a.startswith("--mode") for a in arguments):
        explain = lambda arguments: parse(arguments)[2]
        if registry.HELP:
            explain = registry.load(registry.HELP["config"])
        print(f"The config of {' '.join(arguments)}\n\n{explain(arguments)}")


def set_up_jax(config: "ConfigDict", collective: bool) -> None:
    """Sets JAX's options and connects the processes of a collective mode.

    Processes other than 0 log warnings and errors only.
    """
    startup.schedule_for_memory()

    import jax

    from transformer.distributed import processes
    from transformer.models import kernels

    startup.set_compilation_cache(config.compilation_cache)
    kernels.use(config.kernels)
    if not collective:
        return
    startup.compute_in_calling_thread()
    parallel = config.parallel
    processes.connect(parallel.coordinator, parallel.num_processes, parallel.process_id)
    if jax.process_count() > 1:
        # On CPUs, Gloo prints each connection to standard output, which is for results. Redirect
        # that descriptor to standard error, and results to a copy of the original.
        results = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.stdout = open(results, "w", encoding=sys.stdout.encoding)  # noqa: SIM115 (kept open)
    if not processes.is_first():
        logging.getLogger().setLevel(logging.WARNING)


def run(arguments: list[str]) -> int:
    """Runs main, reports a failure as one line or a traceback, and returns the exit status."""
    try:
        main(arguments)
        sys.stdout.flush()
    except SystemExit as error:  # such as 143, signalled to stop
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as in `... | head`
        return 1
    except Exception as error:  # any kind, because a bug gets a traceback
        if line := one_line(error):
            print(f"launch.py: {line}", file=sys.stderr)
            return 2
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> None:
    """Exits at once, because Python's exit waits for threads, up to five minutes for Orbax's.

    Processes that succeed together exit together, through JAX's exit handler.
    """
    jax = sys.modules.get("jax")
    if status in (0, 143) and jax and jax.distributed.is_initialized():
        sys.exit(status)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def open_closed_streams() -> None:
    """Opens closed standard streams on /dev/null.

    Otherwise the next file opened gets a stream's descriptor, and libraries print into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The stream's descriptor is the lowest free one, so open() returns it.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (kept open)
            setattr(sys, name, stream)


def log_to_standard_error() -> None:
    """Logs our lines, and silences libraries where we report the failure in one line ourselves.

    After a failed save, Orbax logs a traceback per thread. TensorStore adds one per array, because
    its callbacks run on an event loop that Orbax has closed.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for library in ("absl", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for library in ("fsspec", "gcsfs", "jax", "orbax"):
        logging.getLogger(library).setLevel(logging.ERROR)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    # This hook gets the exceptions that no caller can catch, such as a callback's.
    report = sys.unraisablehook
    sys.unraisablehook = lambda x: str(x.exc_value) == "Event loop is closed" or report(x)


if __name__ == "__main__":
    startup.restart_with_allocator()  # first, so that JAX is not imported twice
    # XLA logs an error when a program compiles for over two minutes. Its real errors are raised,
    # and fatal ones are still logged.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    gc.disable()  # until `main` has imported what the mode needs
    open_closed_streams()
    log_to_standard_error()
    leave(run(sys.argv[1:]))
