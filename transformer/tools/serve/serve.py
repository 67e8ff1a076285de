"""--mode=serve: answers over HTTP until it is told to stop."""

import logging
import signal
import socket
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError, check_values
from transformer.modes.command_line import trained_config
from transformer.runtime import paths, progress
from transformer.tools.serve import served

RULES = {
    "port": "at least 0 and below 65536",
    "batch_wait": "at least 0 and below 60",
    "timeout": "above 0 and below 2^31",
    **dict.fromkeys(
        ("batch_lines", "max_characters", "max_lines", "max_waiting"), "at least 1 and below 2^31"
    ),
}


def serve(config: ConfigDict, workdir: Path) -> None:
    """Serves the workdir's model, and those of `config.serve.also`, until SIGTERM or Ctrl-C.

    Requests that have begun are answered before it ends; a second Ctrl-C ends at once.
    """
    options = config.serve
    check_values("serve", options, RULES)
    try:
        import uvicorn

        from transformer.tools.serve import application
    except ImportError as error:
        raise UserError(
            f"--mode=serve needs the package {error.name}: pip install fastapi uvicorn "
            "prometheus-client"
        ) from error
    folders = [workdir, *map(paths.path, filter(None, options.also.split(",")))]
    names = [folder.resolve().name for folder in folders]
    if len({*names}) < len(names):
        raise UserError(f"two models have one name, that of their folder: {', '.join(names)}")
    configs = [config, *(trained_config(folder, []) for folder in folders[1:])]
    for folder, each in zip(folders, configs, strict=True):
        if each.task != "translation":
            raise UserError(
                f"config.serve.also: {folder} was trained on the task {each.task!r}, expected "
                "'translation'"
            )
    listening = bound(options.host, options.port)  # before minutes of work: is the port free?
    with progress.waiting("compile"):
        models = {
            name: served.load(each, folder, name, names)
            for name, folder, each in zip(names, folders, configs, strict=True)
        }
    server = uvicorn.Server(
        uvicorn.Config(
            application.application(models, options),
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(options.timeout) + 1,
        )
    )
    listening.listen()  # from here on a client is answered, if a moment later
    host, port = listening.getsockname()[:2]
    logging.info("%s at http://%s:%d; Ctrl-C ends", ", ".join(names), host, port)
    # uvicorn stops at a signal, and then raises it again, for the handler that was there before.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listening])
    logging.info("stopped: all requests that had begun were answered")


def bound(host: str, port: int) -> socket.socket:
    """Returns a socket at an address; UserError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise UserError(f"config.serve: cannot listen at {host}:{port}: {reason}") from error
    return listening
