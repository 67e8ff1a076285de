r"""Train, evaluate and use the Transformer of "Attention Is All You Need".

  python launch.py --config=configs/parallel_text.py  trains, or resumes, and scores the test set
  python launch.py --mode=translate --workdir=runs/parallel_text < source.txt > target.txt

The modes, all of registry.py; DIR is runs/CONFIG by default, and may be gs://BUCKET/FOLDER
(docs/running.md):

MODES

Any key of a config can be set: --config.model.d_model=256 --config.train.num_steps=1000. To see the
keys and their values: python launch.py --config=configs/parallel_text.py --help. What they mean is
in configs/TASK.py (such as translation.py), configs/_layers.py and configs/_run.py. A mode may have
keys of its own: python launch.py --mode=align --workdir=DIR --help shows those, too. A config is
Python code that is executed: only use configs that you trust.

What starts from a trained workdir takes the config from there, except the keys that belong to a
machine (compilation_cache, data.data_dir, parallel, evaluate.ensemble, train.init_from,
vocabulary.model) and a mode's own: these have their defaults unless set on the command line.

Results go to standard output, everything else to standard error. Exit status: 0 done; 2 a mistake
of the user, or a disk that fails, explained in one line; 143 training, or a sweep of it, was
signalled to stop (SIGTERM, SIGHUP, SIGUSR1, Ctrl-C) and has saved a checkpoint, so that the same
command resumes it; 130 interrupted by Ctrl-C: any other mode (but serve ends with 0), or training
before its first step; 1 any other failure.
"""

import gc
import os
import signal
import sys

from transformer.runtime import startup


def end_at_once(*_: object) -> None:
    """Handles Ctrl-C during start-up: ends the process with status 130, without a traceback."""
    os._exit(130)


if __name__ == "__main__":
    # The imports below, and those of a mode, take a second in which there is nothing to clean up.
    # If Ctrl-C is ignored at start (a background job), it stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see restart_with_allocator
    startup.restart_with_allocator()  # before the imports, which would be made twice
    # XLA logs, as an error, that a program takes more than two minutes to compile, with advice for
    # its authors. Its errors are raised; those that end the process are still logged.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # No garbage collection while importing: it would look at all modules again and again. Then
    # `main` freezes them, so that no later collection does: 0.4 of 2.4 s to translate a line.
    gc.disable()

import logging
import traceback

from ml_collections import ConfigDict

from transformer import registry
from transformer.errors import UserError
from transformer.modes.command_line import modes_help, parse
from transformer.runtime import standard_streams


def main(arguments: list[str]) -> None:
    """Runs the mode given on the command line, or prints the help."""
    if sys.stdout is None:
        raise UserError(
            "standard output is closed, but results go there; redirect it to a file or /dev/null"
        )
    without_help = [a for a in arguments if a not in ("-h", "--help")]
    if without_help != arguments:
        print(__doc__.replace("MODES", modes_help()))
        if any(not a.startswith("--mode") for a in without_help):
            explain = lambda arguments: parse(arguments)[2]
            if registry.HELP:
                explain = registry.load(registry.HELP["config"])
            print(f"The config of {' '.join(without_help)}\n\n{explain(without_help)}")
        return
    mode, workdir, config = parse(arguments)
    startup.schedule_for_memory()
    if registry.MODES[mode].reads_input and sys.stdin is None:
        raise UserError(f"standard input is closed, but --mode={mode} reads it, as in < source.txt")
    if registry.MODES[mode].collective:
        from transformer.runtime import memory  # imports JAX

        memory.compute_in_calling_thread()
        connect(config.parallel)
    run_mode = registry.load(registry.MODES[mode].code)
    # Imported here, not above: a mistyped command is to be answered at once, and JAX, which
    # compilation_cache imports, takes 0.4 s, tqdm 0.03 s.
    from tqdm.contrib.logging import logging_redirect_tqdm

    from transformer.runtime.compilation_cache import set_compilation_cache

    set_compilation_cache(config.compilation_cache)
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(startup.NEW_OBJECTS)
        gc.enable()
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        startup.watch_ctrl_c()
    with logging_redirect_tqdm():  # so that log lines do not break progress bars
        run_mode(config, workdir)


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
        sys.stdout = standard_streams.open_output(results)
    if not processes.is_first():
        logging.getLogger().setLevel(logging.WARNING)


def leave(status: int) -> None:
    """Ends the process at once, without waiting for threads or other processes.

    JAX's exit handler waits for the other processes, and they for this one; Python's waits five
    minutes for Orbax's threads if a save failed.
    """
    standard_streams.finish_output()
    if "jax" in sys.modules:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def user_error_line(error: Exception) -> str:
    """Returns the one line that explains a user's mistake, "" if the error is a bug.

    Mistakes are a UserError, a file that cannot be read or written, and a full or closed standard
    output. A file that is missing is a bug, because the user's are looked for before they are read.
    """
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, UserError) else ""


def log_to_standard_error() -> None:
    """Logs our lines, and of the libraries' lines only what we do not report in one line ourselves.

    If a save fails, Orbax logs a traceback of each of its threads, and TensorStore one of each
    array, whose callback meets an event loop that Orbax has closed.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    for library in ("absl", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for library in ("fsspec", "gcsfs", "jax", "orbax"):
        logging.getLogger(library).setLevel(logging.ERROR)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    # The hook for exceptions that no caller can catch, such as those of a callback.
    report = sys.unraisablehook
    sys.unraisablehook = lambda x: str(x.exc_value) == "Event loop is closed" or report(x)


def is_single_jax_process() -> bool:
    """Returns whether JAX is loaded and this is the only process of the run."""
    jax = sys.modules.get("jax")
    return bool(jax) and not jax.distributed.is_initialized()


def run(arguments: list[str]) -> None:
    """Runs main, and turns its failures into one line or a traceback, and an exit status."""
    try:
        main(arguments)
        sys.stdout.flush()
        if is_single_jax_process():  # otherwise JAX's exit handler ends the processes together
            leave(0)
    except KeyboardInterrupt:
        leave(130)
    except SystemExit as error:  # such as 143, signalled to stop
        if not is_single_jax_process():
            raise
        leave(error.code)
    except Exception as error:
        line = user_error_line(error)
        if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as in `... | head`
            leave(1)
        if not line:
            traceback.print_exc()
            leave(1)
        print(f"launch.py: {line}", file=sys.stderr)
        leave(2)


if __name__ == "__main__":
    standard_streams.prepare()
    log_to_standard_error()
    run(sys.argv[1:])
